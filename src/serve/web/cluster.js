// cluster.js - slots and who is in them, who waits and why, the master's own log.
import { html, useEffect } from "./preact.js";
import * as api from "./api.js";
import { useData, act, link, State, Failed, fmt } from "./ui.js";
import { Logs } from "./logs.js";

const SHOWN = 200; // of those that wait

export function Cluster({ me }) {
  const wants = (e) => e.type === "trial" || e.type === "experiment";
  const agents = useData("/agents", wants), tasks = useData("/tasks?limit=" + SHOWN, wants), master = useData("/master", wants).data;
  useEffect(() => { document.title = "Cluster · ebb"; }, []);
  const slots = agents.data ? agents.data.agents.flatMap((a) => a.slots.map((s) => ({ ...s, agent: a.id }))) : [];
  const used = slots.filter((s) => s.trial_id).length, rows = tasks.data ? tasks.data.tasks : [], by = new Map(rows.map((t) => [t.trial_id, t]));
  const flip = (s) => act(api.patch(`/agents/${s.agent}/slots/${s.id}`, { enabled: !s.enabled }), s.enabled ? "Disabled: what runs there ends with a checkpoint" : "Enabled").then(agents.reload);
  return html`<div><div class="head"><h1>Cluster</h1><span class="note">${used} of ${slots.length} slots used</span></div>
    <${Failed} error=${agents.error || tasks.error} />${master && master.is_stalled && html`<p class="error">Nothing can be written: ${master.message}</p>`}
    <section class="card"><h2>Slots</h2><div class="body"><div class="slots">${slots.map((s) => html`<div key=${s.agent + s.id} class=${"slot" + (s.trial_id ? " used" : "") + (s.enabled ? "" : " off")}><strong>Slot ${s.id}</strong><span class="note">${s.device}</span>
      <span>${s.trial_id ? html`<a href=${link("/trials/" + s.trial_id)}>trial ${s.trial_id}</a>${by.get(s.trial_id) ? html` of <a href=${link("/experiments/" + by.get(s.trial_id).experiment_id)}>experiment ${by.get(s.trial_id).experiment_id}</a>` : ""}` : s.enabled ? "free" : "disabled"}</span>
      ${!me.read_only && html`<button onClick=${() => flip(s)} aria-label=${(s.enabled ? "disable" : "enable") + " slot " + s.id}>${s.enabled ? "Disable" : "Enable"}</button>`}</div>`)}</div></div></section>
    <section class="card"><div class="card-head"><h2>Queue</h2><span class="note">${tasks.data ? tasks.data.total.toLocaleString() : ""}</span></div><div class="scroll"><table><caption class="visually-hidden">Queue</caption><thead><tr><th scope="col" class="num">#</th><th scope="col">Experiment</th><th scope="col">Trial</th><th scope="col">State</th><th scope="col">Slots</th><th scope="col">Waits for</th></tr></thead>
      <tbody>${rows.map((t, i) => html`<tr key=${t.id}><td class="num">${i + 1}</td><td><a href=${link("/experiments/" + t.experiment_id)}>${t.experiment_id}</a></td><td>${t.trial_id ? html`<a href=${link("/trials/" + t.trial_id)}>${t.trial_id}</a>` : "–"}</td><td><${State} state=${t.state} /></td><td>${(t.slots || []).join(", ")}</td><td>${t.waiting || ""}</td></tr>`)}</tbody></table></div>${tasks.data && tasks.data.total > rows.length && html`<p class="pager">The first ${rows.length} of ${tasks.data.total.toLocaleString()}.</p>`}${tasks.data && !rows.length && html`<p class="empty">Nobody runs, nobody waits.</p>`}</section>
    ${master && html`<section class="card"><h2>Master</h2><div class="body"><dl class="facts">${[["Version", master.version], ["Process", master.pid], ["State directory", master.state_dir], ["Cluster", master.cluster_id], ["Commits", master.commits]].map(([k, v]) => html`<div key=${k}><dt>${k}</dt><dd class="mono">${fmt(v)}</dd></div>`)}</dl></div></section>`}
    <${Logs} path="/master/logs" title="Master log" wants=${() => false} /></div>`;
}
