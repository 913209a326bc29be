// experiments.js - all experiments: filters, order and page stand in the address; ticked ones can be acted on together.
import { html, useState, useEffect } from "./preact.js";
import * as api from "./api.js";
import { useData, useQuery, go, link, act, State, Progress, Time, Sorted, Pager, Labels, Failed, Dialog, TensorBoard, listOf, lasted, fmt, num, useNow } from "./ui.js";

const LIMIT = 50;
const flip = (list, value) => (list.includes(value) ? list.filter((x) => x !== value) : [...list, value]);
const filters = ["ACTIVE", "PAUSED", "COMPLETED", "CANCELED", "ERROR"];
const batch = [["activate", "Activate"], ["pause", "Pause"], ["cancel", "Cancel"], ["kill", "Kill"], ["archive", "Archive"], ["unarchive", "Unarchive"], ["delete", "Delete"]];
const sure = { kill: "Kill", cancel: "Cancel", delete: "Delete" };

// What runs now, at a glance: the newest active ones, and how full the machine is.
function Now({ me }) {
  const wants = (e) => e.type === "experiment" || e.type === "validation" || e.type === "trial";
  const active = useData("/experiments?state=ACTIVE&limit=4", wants), agents = useData("/agents", (e) => e.type === "trial").data;
  const rows = active.data ? active.data.experiments : [], slots = agents ? agents.agents.flatMap((a) => a.slots) : [], used = slots.filter((s) => s.trial_id).length;
  if (!rows.length) return null;
  const pause = (e) => act(api.post(`/experiments/${e.id}/pause`), "Paused").then(active.reload);
  return html`<section class="now" aria-label="what runs now">${rows.map((e) => html`<article class="card" key=${e.id}><div class="body">
      <h2><a href=${link("/experiments/" + e.id)}>${e.description || "(no description)"}</a></h2>
      <p class="note">${e.id} · ${e.num_ended} of ${e.num_trials} trials ended · ${lasted(e.start_time, null)}</p>
      <${Progress} value=${e.progress} label=${"progress of experiment " + e.id} />
      <p class="row"><span><b>${e.best_metric === null ? "–" : fmt(num(e.best_metric))}</b> <span class="note">${e.metric}</span></span>${!me.read_only && html`<button aria-label=${"pause experiment " + e.id} onClick=${() => pause(e)}>Pause</button>`}</p></div></article>`)}
    <article class="card"><div class="body"><h2><a href=${link("/cluster")}>${used} of ${slots.length} slots</a></h2><p class="note">${active.data.total} active experiment${active.data.total === 1 ? "" : "s"}</p><span class="lamps" aria-hidden="true">${slots.slice(0, 64).map((s) => html`<i key=${s.id} class=${s.trial_id ? "used" : s.enabled ? "" : "off"}></i>`)}</span></div></article></section>`;
}

export function Experiments({ place, me }) {
  const q = place.query, set = useQuery(place);
  const offset = Number(q.offset) || 0, states = q.state ? q.state.split(",") : [], labels = listOf(q.label), owners = listOf(q.user);
  const sort = q.sort || "-id";
  const path = "/experiments" + api.query({ state: q.state, label: q.label, user: q.user, description: q.q, archived: q.archived ? "all" : "", sort, limit: LIMIT, offset });
  const { data, error, reload } = useData(path, (e) => e.type === "experiment" || e.type === "validation" || e.type === "trial");
  const users = useData("/users").data;
  const [chosen, choose] = useState(new Set()), [asking, ask] = useState(null);
  const rows = data ? data.experiments : [];
  useNow(1000, rows.some((e) => !e.end_time));
  useEffect(() => { document.title = "Experiments · ebb"; }, []);
  const filter = (change) => { choose(new Set()); set({ offset: "", ...change }); };
  const tick = (id) => choose((s) => { const n = new Set(s); if (!n.delete(id)) n.add(id); return n; });
  const run = async (verb) => {
    const ids = [...chosen];
    let done = 0;
    for (const id of ids)
      if (await act(verb === "delete" ? api.del(`/experiments/${id}`) : api.post(`/experiments/${id}/${verb}`))) done++;
    if (done) await act(Promise.resolve(true), `${verb}: ${done} of ${ids.length} experiment${ids.length === 1 ? "" : "s"}`);
    choose(new Set());
    reload();
  };
  const label = (e, name, on) => act(api.patch(`/experiments/${e.id}`, { labels: { [name]: on ? true : null } })).then(reload);
  const canWrite = !me.read_only;
  return html`<div>
    <div class="head"><h1>Experiments</h1></div><${Now} me=${me} />
    <section class="card" aria-label="experiments">
      <div class="card-head toolbar">
        <input type="search" placeholder="Search descriptions" aria-label="search descriptions" value=${q.q || ""} onInput=${(e) => filter({ q: e.target.value })} />
        <span class="actions" role="group" aria-label="states">${filters.map((s) => html`<button key=${s} aria-pressed=${states.includes(s) ? "true" : "false"} onClick=${() => filter({ state: flip(states, s).join(",") })}>${s.toLowerCase()}</button>`)}</span>
        <details class="menu left"><summary>${owners.length ? owners.length === 1 ? owners[0] : `${owners.length} owners` : "Every owner"}</summary><div class="toolbar">${((users && users.users) || []).map((u) => html`<label class="inline" key=${u.name}><input type="checkbox" checked=${owners.includes(u.name)} onChange=${() => filter({ user: flip(owners, u.name) })} />${u.name}</label>`)}</div></details>
        ${labels.map((l) => html`<span class="chip" key=${l}>label ${l}<button aria-label=${"without the filter " + l} onClick=${() => filter({ label: flip(labels, l) })}>×</button></span>`)}
        <label class="inline"><input type="checkbox" checked=${!!q.archived} onChange=${(e) => filter({ archived: e.target.checked ? "1" : "" })} /> archived too</label>
        ${Object.keys(q).length > 0 && html`<button class="quiet" onClick=${() => go("/experiments", {})}>Reset</button>`}
      </div>
      ${chosen.size > 0 && html`<div class="card-head toolbar" role="group" aria-label="with the ticked ones"><strong>${chosen.size} ticked</strong>
        ${canWrite && batch.map(([verb, text]) => html`<button key=${verb} class=${sure[verb] ? "danger" : ""} onClick=${() => (sure[verb] ? ask(verb) : run(verb))}>${text}</button>`)}
        <button disabled=${chosen.size < 2} onClick=${() => go("/compare", { ids: [...chosen].join(",") })}>Compare</button>
        <button onClick=${() => ask("tensorboard")}>TensorBoard</button><button class="quiet" onClick=${() => choose(new Set())}>None</button></div>`}
      <${Failed} error=${error} />
      <div class="scroll"><table><caption class="visually-hidden">Experiments</caption><thead><tr><th scope="col"><input type="checkbox" aria-label="tick all on this page" checked=${rows.length > 0 && rows.every((e) => chosen.has(e.id))} onChange=${(e) => choose(new Set(e.target.checked ? rows.map((x) => x.id) : []))} /></th>
        <${Sorted} name="id" text="ID" sort=${sort} onSort=${(s) => set({ sort: s })} num />
        <${Sorted} name="description" text="Description" sort=${sort} onSort=${(s) => set({ sort: s })} />
        <${Sorted} name="state" text="State" sort=${sort} onSort=${(s) => set({ sort: s })} />
        <${Sorted} name="progress" text="Progress" sort=${sort} onSort=${(s) => set({ sort: s })} />
        <th scope="col" class="num">Best</th><th scope="col" class="num">Trials</th>
        <${Sorted} name="owner" text="Owner" sort=${sort} onSort=${(s) => set({ sort: s })} />
        <${Sorted} name="start_time" text="Started" sort=${sort} onSort=${(s) => set({ sort: s })} />
        <${Sorted} name="end_time" text="Lasted" sort=${sort} onSort=${(s) => set({ sort: s })} /><th scope="col"><span class="visually-hidden">Actions</span></th></tr></thead>
      <tbody>${rows.map((e) => html`<tr key=${e.id} class=${chosen.has(e.id) ? "chosen" : ""}>
        <td><input type="checkbox" aria-label=${"tick experiment " + e.id} checked=${chosen.has(e.id)} onChange=${() => tick(e.id)} /></td>
        <td class="num">${e.id}</td>
        <td class="grow"><a href=${link("/experiments/" + e.id)}>${e.description || "(no description)"}</a>${e.archived && html` <span class="badge">archived</span>`}<div><${Labels} labels=${e.labels || []} canEdit=${canWrite} onPick=${(l) => filter({ label: labels.includes(l) ? labels : [...labels, l] })} onAdd=${(l) => label(e, l, true)} onRemove=${(l) => label(e, l, false)} /></div></td>
        <td><${State} state=${e.state} /></td>
        <td>${e.progress !== null && e.progress !== undefined ? html`<${Progress} value=${e.progress} label=${"progress of experiment " + e.id} />` : ""}</td>
        <td class="num" title=${e.metric}>${e.best_metric === null ? "–" : fmt(num(e.best_metric))}</td>
        <td class="num">${e.num_ended}/${e.num_trials}</td>
        <td><button class="quiet" title="show this owner's" onClick=${() => filter({ user: owners.includes(e.owner) ? owners : [...owners, e.owner] })}>${e.owner}</button></td>
        <td class="nowrap"><${Time} at=${e.start_time} /></td><td class="nowrap">${lasted(e.start_time, e.end_time)}</td>
        <td>${canWrite && html`<a class="button" href=${link("/experiments/" + e.id, { fork: 1 })} aria-label=${"fork experiment " + e.id}>Fork</a>`}</td></tr>`)}</tbody></table></div>
      ${data && !rows.length && html`<p class="empty">${Object.keys(q).length ? "No experiment is like that." : html`No experiments yet. Run one: <code>ebb run FILE</code>`}</p>`}
      ${data && html`<${Pager} offset=${offset} limit=${LIMIT} total=${data.total} onMove=${(o) => set({ offset: o || "" })} />`}
    </section>
    ${asking === "tensorboard" && html`<${TensorBoard} words=${[...chosen].join(" ")} onClose=${() => ask(null)} />`}
    ${sure[asking] && html`<${Dialog} title=${`${sure[asking]} ${chosen.size} experiment${chosen.size === 1 ? "" : "s"}?`} submit=${sure[asking]} danger onClose=${() => ask(null)} onSubmit=${() => run(asking)}>
      <p>${asking === "delete" ? "Rows and files go, checkpoints too. Only ended ones can be deleted." : asking === "kill" ? "Processes end at once; what they did since their last checkpoint is lost." : "Trials end with a checkpoint after their step."}</p><//>`}
  </div>`;
}
