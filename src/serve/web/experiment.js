// experiment.js - one experiment: what it is, its curves, trials, space, checkpoints, files, notes; and everything that can be done to it.
import { html, useState, useEffect, useMemo } from "./preact.js";
import * as api from "./api.js";
import { listen } from "./live.js";
import { useData, useQuery, readPlace, go, link, act, toast, State, Progress, Time, Sorted, Pager, Labels, Failed, Dialog, Tabs, TensorBoard, Guard, Missing, lasted, fmt, num, own, bytes, toYaml, isEnded, useNow } from "./ui.js";
import { Curves, TableOf } from "./chart.js";
import { useCurves } from "./curves.js";
import { Explore } from "./explore.js";
import { Logs } from "./logs.js";

const tabs = [["curves", "Curves"], ["trials", "Trials"], ["explore", "Explore"], ["checkpoints", "Checkpoints"], ["config", "Configuration"], ["code", "Code"], ["notes", "Notes"], ["logs", "Logs"]];

// ---- charts ----

export function ChartControls({ q, set, names, kinds }) {
  return html`<div class="toolbar">
    <label class="inline">Metric <select value=${q.metric || ""} onChange=${(e) => { const v = e.target.value, at = v.indexOf("|"); set({ metric: v.slice(at + 1), kind: v.slice(0, Math.max(0, at)) }); }}>
      <option value="">${names ? names.searcher_metric + " (searched)" : "…"}</option>
      ${names && html`<optgroup label="validation">${names.validation.map((n) => html`<option key=${"v" + n} value=${"validation|" + n} selected=${q.metric === n && q.kind !== "training"}>${n}</option>`)}</optgroup>
      <optgroup label="training">${names.training.map((n) => html`<option key=${"t" + n} value=${"training|" + n} selected=${q.metric === n && q.kind === "training"}>${n}</option>`)}</optgroup>`}</select></label>
    <label class="inline">against <select value=${q.x || "batches"} onChange=${(e) => set({ x: e.target.value === "batches" ? "" : e.target.value })}>${kinds.map((k) => html`<option key=${k} value=${k}>${k}</option>`)}</select></label>
    <label class="inline"><input type="checkbox" checked=${!!q.log} onChange=${(e) => set({ log: e.target.checked ? "1" : "" })} /> log scale</label>
    <label class="inline">smoothing <input type="range" min="0" max="0.95" step="0.05" value=${q.smooth || 0} onInput=${(e) => set({ smooth: Number(e.target.value) ? e.target.value : "" })} /></label></div>`;
}
// Batches onto the axis that is asked for.
export function axisX(kind, curve, start, perEpoch) {
  if (kind === "time") return curve.times;
  if (kind === "seconds") return curve.times.map((t) => t - start);
  if (kind === "epochs") return curve.batches.map((b) => b / perEpoch);
  return curve.batches;
}
export const xLabels = { batches: "batches", epochs: "epochs", seconds: "seconds since the start", time: "time" };
export function perEpoch(config, hparams) {
  const records = config && config.records_per_epoch, batch = hparams && hparams.global_batch_size;
  return records > 0 && typeof batch === "number" ? records / batch : null;
}

function CurvesTab({ e, id, q, set }) {
  const names = useData(`/experiments/${id}/metric-names`, (x) => x.experiment_id === id && x.type === "validation").data;
  const most = Number(q.top) || 20;
  const path = `/experiments/${id}/curves` + api.query({ metric: q.metric, kind: q.kind, max_trials: most, points: most > 1000 ? 12 : most > 100 ? 24 : 400, times: most > 100 && !q.x ? "0" : "" });
  const { data: [data], error } = useCurves([path], (x) => x.experiment_id === id && (x.type === "validation" || x.type === "step" || x.type === "trial"));
  const batch = e.config && e.config.hyperparameters && e.config.hyperparameters.global_batch_size;
  const epochs = perEpoch(e.config, { global_batch_size: typeof batch === "number" ? batch : batch && batch.val });
  const series = useMemo(() => (data ? data.curves.filter((c) => c.values.length).map((c) => ({ id: c.trial_id, label: "trial " + c.trial_id, x: axisX(q.x, c, Date.parse(e.start_time) / 1000, epochs || 1), y: c.values.map(num) })) : []), [data, q.x]);
  const history = useData(`/experiments/${id}/validation-history`, (x) => x.experiment_id === id && x.is_best).data;
  const best = useMemo(() => {
    const h = history ? history.validation_history : [];
    if (!h.length) return [];
    const at = (t) => (Date.parse(t) - Date.parse(e.start_time)) / 1000, last = h[h.length - 1], end = e.end_time && at(e.end_time) > at(last.end_time) ? [at(e.end_time)] : [];
    return [{ label: "best so far", x: [...h.map((p) => at(p.end_time)), ...end], y: [...h.map((p) => num(p.metric)), ...end.map(() => num(last.metric))] }];
  }, [history, e.end_time]);
  return html`<div><section class="card"><div class="card-head"><h2>Learning curves</h2><${ChartControls} q=${q} set=${set} names=${names} kinds=${["batches", ...(epochs ? ["epochs"] : []), "seconds", "time"]} />
      <span class="actions"><label class="inline">best <select value=${String(most)} onChange=${(x) => set({ top: x.target.value })}>${[5, 20, 100, 1000, 10000].map((n) => html`<option key=${n} value=${String(n)}>${n}</option>`)}</select> trials</label></span></div>
    <div class="body"><${Failed} error=${error} /><${Curves} series=${series} logY=${!!q.log} smoothing=${Number(q.smooth) || 0} xLabel=${xLabels[q.x || "batches"]} xTime=${q.x === "time"} label=${`${data ? data.metric : ""} of ${series.length} trials`} onPick=${(s) => go("/trials/" + s.id)} /></div></section>
    ${best.length > 0 && html`<section class="card"><h2>Best ${e.metric} so far</h2><div class="body"><${Curves} height=${220} series=${best} stairs logY=${!!q.log} xLabel="seconds since the start" label=${"best " + e.metric + " so far"} /></div></section>`}</div>`;
}

// ---- trials ----

function TrialsTab({ id, q, set }) {
  const limit = 50, offset = Number(q.offset) || 0, sort = q.sort || "id", [chosen, choose] = useState(new Set());
  const points = useData(`/experiments/${id}/points`, (e) => e.experiment_id === id && e.type === "trial", { ms: 3000 }).data;
  const { data, error } = useData(`/experiments/${id}/trials` + api.query({ limit, offset, sort, state: q.state }), (e) => e.experiment_id === id && e.type !== "log");
  const names = points ? points.varying.slice(0, 8) : [], onSort = (s) => set({ sort: s, offset: "" });
  const cell = (t, name) => (Object.hasOwn(t.hparams, name) ? t.hparams[name] : name.split(".").reduce(own, t.hparams));
  const tick = (t) => choose((s) => { const n = new Set(s); if (!n.delete(t)) n.add(t); return n; });
  return html`<section class="card"><div class="card-head toolbar"><h2>Trials</h2><span class="actions" role="group" aria-label="states">${["ACTIVE", "COMPLETED", "CANCELED", "ERROR"].map((s) => html`<button key=${s} aria-pressed=${q.state === s ? "true" : "false"} onClick=${() => set({ state: q.state === s ? "" : s, offset: "" })}>${s.toLowerCase()}</button>`)}
      <button disabled=${chosen.size < 2} onClick=${() => go("/compare", { trials: [...chosen].join(",") })}>Compare ${chosen.size || ""}</button></span></div>
    <${Failed} error=${error} />
    <div class="scroll"><table><caption class="visually-hidden">Trials</caption><thead><tr><th scope="col"><span class="visually-hidden">tick</span></th><${Sorted} name="id" text="Trial" sort=${sort} onSort=${onSort} num /><${Sorted} name="state" text="State" sort=${sort} onSort=${onSort} />
      <${Sorted} name="best_validation" text="Best" sort=${sort} onSort=${onSort} num /><${Sorted} name="latest_validation" text="Latest" sort=${sort} onSort=${onSort} num /><${Sorted} name="steps" text="Steps" sort=${sort} onSort=${onSort} num /><${Sorted} name="restarts" text="Restarts" sort=${sort} onSort=${onSort} num />
      ${names.map((n) => html`<${Sorted} key=${n} name=${"hparams." + n} text=${n} sort=${sort} onSort=${onSort} num />`)}<${Sorted} name="start_time" text="Started" sort=${sort} onSort=${onSort} /><th scope="col">Lasted</th></tr></thead>
    <tbody>${(data ? data.trials : []).map((t) => html`<tr key=${t.id} class=${chosen.has(t.id) ? "chosen" : ""}><td><input type="checkbox" aria-label=${"tick trial " + t.id} checked=${chosen.has(t.id)} onChange=${() => tick(t.id)} /></td><td class="num"><a href=${link("/trials/" + t.id)}>${t.id}</a></td><td><${State} state=${t.state} />${t.message && html`<div class="note">${t.message}</div>`}</td>
      <td class="num">${t.best_validation === null ? "–" : fmt(num(t.best_validation))}</td><td class="num">${t.latest_validation === null ? "–" : fmt(num(t.latest_validation))}</td><td class="num">${t.steps}</td><td class="num">${t.restarts}</td>${names.map((n) => html`<td class="num" key=${n}>${fmt(cell(t, n))}</td>`)}<td class="nowrap"><${Time} at=${t.start_time} /></td><td class="nowrap">${lasted(t.start_time, t.end_time)}</td></tr>`)}</tbody></table></div>
    ${data && !data.trials.length && html`<p class="empty">No trial is like that.</p>`}
    ${data && html`<${Pager} offset=${offset} limit=${limit} total=${data.total} onMove=${(o) => set({ offset: o || "" })} />`}</section>`;
}

function CheckpointsTab({ id, me, q, set }) {
  const { data, error, reload } = useData(`/experiments/${id}/checkpoints`, (e) => e.experiment_id === id && e.type === "checkpoint");
  const [shown, show] = useState(null), [asking, ask] = useState(null);
  const all = data ? data.checkpoints : [], limit = 100, offset = Number(q.offset) || 0, rows = all.slice(offset, offset + limit);
  return html`<section class="card"><h2>Checkpoints</h2><${Failed} error=${error} /><div class="scroll"><table><caption class="visually-hidden">Checkpoints</caption><thead><tr><th scope="col" class="num">Trial</th><th scope="col" class="num">Step</th><th scope="col">State</th><th scope="col" class="num">Metric</th><th scope="col" class="num">Size</th><th scope="col">Ended</th><th scope="col">UUID</th><th scope="col"><span class="visually-hidden">Actions</span></th></tr></thead>
    <tbody>${rows.map((c) => html`<tr key=${c.uuid}><td class="num"><a href=${link("/trials/" + c.trial_id)}>${c.trial_id}</a></td><td class="num">${c.step_id}</td><td><${State} state=${c.state} /></td><td class="num">${c.metric === null ? "–" : fmt(num(c.metric))}</td><td class="num">${bytes(c.size)}</td><td class="nowrap"><${Time} at=${c.end_time} /></td><td><button class="quiet mono" onClick=${() => show(c)}>${c.uuid.slice(0, 8)}…</button></td><td>${!me.read_only && c.state === "COMPLETED" && html`<button class="danger" aria-label=${"delete checkpoint " + c.uuid} onClick=${() => ask(c)}>Delete</button>`}</td></tr>`)}</tbody></table></div>
    ${data && !rows.length && html`<p class="empty">${all.length ? "No checkpoint is there." : "It has no checkpoint."}</p>`}
    ${all.length > limit && html`<${Pager} offset=${offset} limit=${limit} total=${all.length} onMove=${(o) => set({ offset: o || "" })} />`}
    ${shown && html`<${Dialog} title="Checkpoint" submit="Close" onClose=${() => show(null)} onSubmit=${() => {}}><dl class="facts"><div><dt>UUID</dt><dd class="mono">${shown.uuid}</dd></div><div><dt>Trial, step</dt><dd>${shown.trial_id}, ${shown.step_id}</dd></div><div><dt>Size</dt><dd>${bytes(shown.size)}</dd></div><div><dt>Metric</dt><dd>${fmt(num(shown.metric))}</dd></div></dl><p class="mono">${shown.path}</p>
      <${TableOf} summary="Files" columns=${["file", "bytes"]} rows=${Object.entries(shown.resources || {})} /><//>`}
    ${asking && html`<${Dialog} title="Delete this checkpoint?" submit="Delete" danger onClose=${() => ask(null)} onSubmit=${async () => { await api.del("/checkpoints/" + asking.uuid); reload(); }}><p class="mono">${asking.uuid}</p><//>`}</section>`;
}

function CodeTab({ id }) {
  const { data, error } = useData(`/experiments/${id}/file_tree`);
  const files = data ? data.files.filter((f) => f.type !== "dir") : [], [path, open] = useState(null), [text, put] = useState(null);
  useEffect(() => {
    let alive = !!path;
    put(null);
    if (path) fetch(api.filePath(`/experiments/${id}/file` + api.query({ path })), { credentials: "same-origin" }).then((r) => r.text()).then((t) => { if (alive) put(t.length > 400000 ? t.slice(0, 400000) + "\n…" : t); }, () => { if (alive) put("The master does not answer."); });
    return () => { alive = false; };
  }, [path]);
  return html`<section class="card"><div class="card-head"><h2>Model definition</h2><span class="actions"><a class="button" href=${api.filePath(`/experiments/${id}/model_def`)} download>Download</a></span></div><${Failed} error=${error} />
    ${files.length ? html`<div class="split"><ul>${files.map((f) => html`<li key=${f.path}><button class="quiet mono" aria-pressed=${path === f.path ? "true" : "false"} onClick=${() => open(f.path)}>${f.path}</button></li>`)}</ul><pre class="code" tabindex="0" aria-label="file">${path ? (text === null ? "…" : text.includes("\0") ? "(not a text)" : text) : "Choose a file."}</pre></div>` : html`<p class="empty">It has no files of its own.</p>`}</section>`;
}

function NotesTab({ e, me, reload }) {
  const [text, put] = useState(e.notes || "");
  return html`<section class="card"><div class="card-head"><h2>Notes</h2>${!me.read_only && html`<span class="actions"><button class="primary" disabled=${text === (e.notes || "")} onClick=${() => act(api.patch(`/experiments/${e.id}`, { notes: text }), "Saved").then(reload)}>Save</button></span>`}</div>
    <div class="body"><textarea rows="14" aria-label="notes" readOnly=${me.read_only} value=${text} onInput=${(x) => put(x.target.value)}></textarea></div></section>`;
}

function LogsTab({ e, id, q, set }) {
  const bad = useData(`/experiments/${id}/trials?limit=1&sort=-end_time&state=ERROR`, (x) => x.experiment_id === id && x.type === "trial").data, { data } = useData(`/experiments/${id}/trials?limit=200`, (x) => x.experiment_id === id && x.type === "trial");
  const failed = bad && bad.trials[0], known = data ? data.trials : [], first = e.state === "ERROR" && failed ? failed.id : e.best_trial_id || (known[0] && known[0].id), trial = Number(q.trial) || first;
  const ids = [...new Set([...known.map((t) => t.id), e.best_trial_id, failed && failed.id, trial].filter(Boolean))].sort((a, b) => a - b), told = (t) => (t === e.best_trial_id ? " (best)" : failed && t === failed.id ? " (failed)" : "");
  return html`<div><div class="toolbar" style=${{ marginBottom: ".75rem" }}><label class="inline">Trial <select value=${trial || ""} onChange=${(x) => set({ trial: x.target.value })}>${ids.map((t) => html`<option key=${t} value=${t}>${t}${told(t)}</option>`)}</select></label>${data && data.total > 200 && html`<span class="note">The first 200 of ${data.total.toLocaleString()}; each has its log on its own page.</span>`}</div>
    ${trial ? html`<${Logs} key=${trial} path=${`/trials/${trial}/logs`} title=${"Log of trial " + trial} q=${q} put=${set} wants=${(x) => x.type === "log" && x.trial_id === trial} />` : html`<p class="empty">No trial has begun yet.</p>`}</div>`;
}

// ---- what can be done ----

export function ForkDialog({ title, config, parent, onClose }) {
  const [text, put] = useState(() => toYaml(config));
  const submit = async () => {
    const a = await api.post("/experiments", { experiment_config: text, parent_id: parent, activate: true });
    go("/experiments/" + a.id);
  };
  return html`<${Dialog} wide title=${title} submit="Create and run" onClose=${onClose} onSubmit=${submit}>
    <p class="note">With the files of experiment ${parent}. Values shown as ******** are its secrets: they are taken over where nothing beside them changes.</p>
    <textarea rows="22" spellcheck=${false} aria-label="configuration" value=${text} onInput=${(e) => put(e.target.value)}></textarea><//>`;
}

function Actions({ e, me, reload, fork }) {
  const [asking, ask] = useState(null), post = (verb, done) => act(api.post(`/experiments/${e.id}/${verb}`), done).then(reload);
  if (me.read_only) return null;
  const ended = isEnded(e.state), canPause = e.state === "ACTIVE", canStart = e.state === "PAUSED", going = canPause || canStart || e.state.startsWith("STOPPING");
  return html`<span class="actions">
    ${canStart && html`<button class="primary" onClick=${() => post("activate", "Activated")}>Activate</button>`}
    ${canPause && html`<button onClick=${() => post("pause", "Paused")}>Pause</button>`}
    ${(canPause || canStart) && html`<button onClick=${() => ask("cancel")}>Cancel</button>`}
    ${going && html`<button class="danger" onClick=${() => ask("kill")}>Kill</button>`}
    <button onClick=${fork}>Fork</button>
    ${ended && (e.archived ? html`<button onClick=${() => post("unarchive", "Unarchived")}>Unarchive</button>` : html`<button onClick=${() => post("archive", "Archived")}>Archive</button>`)}
    ${ended && html`<button class="danger" onClick=${() => ask("delete")}>Delete</button>`}
    ${e.tensorboard_path && html`<button onClick=${() => ask("tensorboard")}>TensorBoard</button>`}
    ${asking === "tensorboard" && html`<${TensorBoard} words=${e.id} path=${e.tensorboard_path} onClose=${() => ask(null)} />`}
    ${asking && asking !== "tensorboard" && html`<${Dialog} title=${{ cancel: "Cancel", kill: "Kill", delete: "Delete" }[asking] + ` experiment ${e.id}?`} submit=${{ cancel: "Cancel it", kill: "Kill it", delete: "Delete it" }[asking]} danger onClose=${() => ask(null)}
      onSubmit=${async () => { if (asking === "delete") { await api.del(`/experiments/${e.id}`); go("/experiments"); } else { await api.post(`/experiments/${e.id}/${asking}`); reload(); } }}>
      <p>${{ cancel: "Its trials end with a checkpoint after their step.", kill: "Its processes end at once; what they did since their last checkpoint is lost.", delete: "Its rows and files go, checkpoints too." }[asking]}</p><//>`}</span>`;
}

function Edit({ what, value, shown, type, onSave, canEdit }) {
  const [on, set] = useState(false);
  return html`<span>${shown} ${canEdit && html`<button class="quiet" aria-label=${"change " + what} onClick=${() => set(true)}>✎</button>`}
    ${on && html`<${Dialog} title=${"Change " + what} onClose=${() => set(false)} onSubmit=${(f) => onSave(f.get("value"))}><label class="field"><span>${what}</span><input name="value" type=${type || "text"} step="any" defaultValue=${value} autofocus /></label><//>`}</span>`;
}

// What is being deleted is not asked for any more.
const isGone = (id) => (x) => x.experiment_id === id && x.type === "experiment" && x.state === "DELETING";

export function Experiment({ place, id, me }) {
  const q = place.query, set = useQuery(place), tab = q.tab || "curves";
  const { data: e, error, reload } = useData(`/experiments/${id}`, (x) => x.experiment_id === id && !isGone(id)(x) && (x.type === "experiment" || x.type === "validation" || x.type === "trial"));
  const [fork, setFork] = useState(!!q.fork);
  useEffect(() => listen(isGone(id), () => { toast(`Experiment ${id} is deleted`); go("/experiments"); }), [id]);
  useNow(1000, !!e && !e.end_time);
  useEffect(() => { document.title = `Experiment ${id}${e ? " · " + e.description : ""} · ebb`; }, [e && e.description, id]);
  if (!e) return html`<${Missing} error=${error} what=${"Experiment " + id} />`;
  const can = !me.read_only, save = (body) => api.patch(`/experiments/${id}`, body).then(reload);
  return html`<div>
    <nav class="crumbs" aria-label="breadcrumb"><a href=${link("/experiments")}>Experiments</a> / ${id}${e.parent_id ? html` · forked from <a href=${link("/experiments/" + e.parent_id)}>${e.parent_id}</a>` : ""}</nav>
    <div class="head"><h1>${e.description || "(no description)"}</h1>${can && html`<${Edit} what="description" value=${e.description} shown="" canEdit=${can} onSave=${(v) => save({ description: v })} />`}<${State} state=${e.state} />${e.archived && html`<span class="badge">archived</span>`}<${Actions} e=${e} me=${me} reload=${reload} fork=${() => setFork(true)} /></div>
    ${e.error && html`<p class="error">${e.error}${tab !== "logs" && html` <a href=${link(place.path, { tab: "logs" })}>Its log</a>`}</p>`}
    <section class="card" aria-label="about it"><div class="body"><dl class="facts">
      <div><dt>Best ${e.metric}</dt><dd class="big">${e.best_metric === null ? "–" : fmt(num(e.best_metric))}</dd><dd class="note">${e.best_trial_id ? html`<a href=${link("/trials/" + e.best_trial_id)}>trial ${e.best_trial_id}</a>, step ${e.best_step_id}` : ""}</dd></div>
      <div><dt>Progress</dt><dd class="big">${e.progress === null || e.progress === undefined ? (e.state === "COMPLETED" ? "100 %" : "–") : (100 * e.progress).toFixed(1) + " %"}</dd><dd><${Progress} value=${e.progress === null || e.progress === undefined ? (e.state === "COMPLETED" ? 1 : 0) : e.progress} /></dd></div>
      <div><dt>Trials</dt><dd class="big">${e.num_trials}</dd><dd class="note">${e.num_ended} ended · ${e.searcher}</dd></div>
      <div><dt>Lasted</dt><dd class="big">${lasted(e.start_time, e.end_time)}</dd><dd class="note">since <${Time} at=${e.start_time} /></dd></div>
      <div><dt>Owner</dt><dd>${e.owner}</dd></div>
      <div><dt>Weight</dt><dd><${Edit} what="weight" type="number" value=${e.weight} shown=${fmt(e.weight)} canEdit=${can} onSave=${(v) => save({ resources: { weight: Number(v) } })} /></dd></div>
      <div><dt>Max slots</dt><dd><${Edit} what="max slots" type="number" value=${e.max_slots === null ? "" : e.max_slots} shown=${e.max_slots === null ? "unlimited" : e.max_slots} canEdit=${can} onSave=${(v) => save({ resources: { max_slots: v === "" ? null : Number(v) } })} /></dd></div>
      <div><dt>Labels</dt><dd><${Labels} labels=${e.labels || []} canEdit=${can} onPick=${(l) => go("/experiments", { label: l })} onAdd=${(l) => act(save({ labels: { [l]: true } }))} onRemove=${(l) => act(save({ labels: { [l]: null } }))} /></dd></div></dl></div></section>
    <${Tabs} label="parts of the experiment" items=${tabs} at=${tab} onChange=${(t) => go(place.path, { tab: t === "curves" ? "" : t, metric: q.metric, kind: q.kind }, true)} />
    <div id="tab-panel" role="tabpanel" aria-labelledby=${"tab-" + tab}><${Guard} at=${location.hash}>
      ${tab === "curves" ? html`<${CurvesTab} e=${e} id=${id} q=${q} set=${set} />` : tab === "trials" ? html`<${TrialsTab} id=${id} q=${q} set=${set} />` : tab === "explore" ? html`<${Explore} id=${id} place=${place} config=${e.config} />`
      : tab === "checkpoints" ? html`<${CheckpointsTab} id=${id} me=${me} q=${q} set=${set} />` : tab === "config" ? html`<section class="card"><h2>Configuration</h2><pre class="code" tabindex="0" aria-label="configuration">${toYaml(e.config || {})}</pre></section>`
      : tab === "code" ? html`<${CodeTab} id=${id} />` : tab === "notes" ? html`<${NotesTab} e=${e} me=${me} reload=${reload} />` : html`<${LogsTab} e=${e} id=${id} q=${q} set=${set} />`}
    <//></div>
    ${fork && e.config && html`<${ForkDialog} title=${`Fork experiment ${id}`} config=${{ ...e.config, description: e.description ? "Fork of " + e.description : "" }} parent=${id} onClose=${() => { setFork(false); if (readPlace().path === place.path && q.fork) set({ fork: "" }); }} />`}
  </div>`;
}
