// trial.js - one trial: its metrics, steps, log, hyperparameters, where its memory and time went.
import { html, useState, useEffect, useMemo } from "./preact.js";
import * as api from "./api.js";
import { listen } from "./live.js";
import { useData, useQuery, listOf, go, link, act, toast, State, Time, Pager, Failed, Guard, Missing, Dialog, Tabs, TensorBoard, lasted, fmt, num, own, bytes, seconds, useNow } from "./ui.js";
import { Curves, Canvas, Timeline, Managed, colour } from "./chart.js";
import { useCurves } from "./curves.js";
import { axisX, xLabels, perEpoch, ForkDialog } from "./experiment.js";
import { Logs } from "./logs.js";

const tabs = [["metrics", "Metrics"], ["steps", "Steps"], ["resources", "Memory and time"], ["hparams", "Hyperparameters"], ["logs", "Log"]];
const parse = (t) => (t ? Date.parse(t) / 1000 : null);

// [kind, name] of every metric that its experiment has.
const namesOf = (names) => (names ? [...[...names.validation].sort().map((n) => ["validation", n]), ...[...names.training].sort().map((n) => ["training", n])] : []);

function Metrics({ t, config, names: all, q, set }) {
  const names = namesOf(all), epochs = perEpoch(config, t.hparams);
  const asked = listOf(q.m).filter((m) => /^(training|validation):/.test(m)), chosen = asked.length ? asked : names.slice(0, 2).map(([k, n]) => k + ":" + n);
  const flip = (key) => set({ m: chosen.includes(key) ? chosen.filter((c) => c !== key) : [...chosen, key] });
  const split = (key) => [key.slice(0, key.indexOf(":")), key.slice(key.indexOf(":") + 1)];
  const paths = chosen.map((key) => { const [kind, metric] = split(key); return "/curves" + api.query({ trials: t.id, metric, kind }); });
  const { data, error } = useCurves(paths, (e) => e.trial_id === t.id && e.type !== "log");
  const series = useMemo(() => data.map((d, i) => {
    const [kind, name] = split(chosen[i] || ":"), c = d.curves[0];
    return { label: `${name} (${kind})`, x: axisX(q.x, c, parse(t.start_time), epochs || 1), y: c.values.map(num) };
  }).filter((s) => s.x.length), [data, q.x, epochs]);
  return html`<section class="card"><div class="card-head"><h2>Metrics</h2><div class="toolbar">
      <label class="inline">against <select value=${q.x || "batches"} onChange=${(e) => set({ x: e.target.value === "batches" ? "" : e.target.value })}>${["batches", ...(epochs ? ["epochs"] : []), "seconds", "time"].map((k) => html`<option key=${k} value=${k}>${k}</option>`)}</select></label>
      <label class="inline"><input type="checkbox" checked=${!!q.log} onChange=${(e) => set({ log: e.target.checked ? "1" : "" })} /> log scale</label>
      <label class="inline">smoothing <input type="range" min="0" max="0.95" step="0.05" value=${q.smooth || 0} onInput=${(e) => set({ smooth: Number(e.target.value) ? e.target.value : "" })} /></label></div></div>
    <div class="body"><${Failed} error=${error} /><div class="toolbar" role="group" aria-label="metrics">${names.map(([k, n]) => html`<button key=${k + n} aria-pressed=${chosen.includes(k + ":" + n) ? "true" : "false"} onClick=${() => flip(k + ":" + n)}>${n} <span class="note">${k}</span></button>`)}</div>
    <${Curves} series=${series} logY=${!!q.log} smoothing=${Number(q.smooth) || 0} xLabel=${xLabels[q.x || "batches"]} xTime=${q.x === "time"} label=${"metrics of trial " + t.id} /></div></section>`;
}

const LIMIT = 100;
function Steps({ t, names: all, config, q, set }) {
  const from = Number(q.offset) || 0, size = (config && config.batches_per_step) || 100, names = namesOf(all).slice(0, 5);
  const { data, error } = useData(`/trials/${t.id}/workloads` + api.query({ limit: LIMIT, offset: from, has: q.has }), (e) => e.trial_id === t.id && e.type !== "log");
  const value = (w, [k, n]) => { const p = k === "training" ? w.metrics && w.metrics.avg_metrics : w.validation && w.validation.metrics && w.validation.metrics.validation_metrics; return own(p, n); };
  return html`<section class="card"><div class="card-head"><h2>Steps</h2><span class="note">the newest first</span><span class="actions" role="group" aria-label="only those with">${["checkpoint", "validation"].map((k) => html`<button key=${k} aria-pressed=${q.has === k ? "true" : "false"} onClick=${() => set({ has: q.has === k ? "" : k, offset: "" })}>with ${k}</button>`)}</span></div><${Failed} error=${error} />
    <div class="scroll"><table><caption class="visually-hidden">Steps</caption><thead><tr><th scope="col" class="num">Step</th><th scope="col" class="num">Batches</th><th scope="col">State</th>${names.map(([k, n]) => html`<th scope="col" class="num" key=${k + n}>${n} (${k})</th>`)}<th scope="col">Checkpoint</th><th scope="col">Ended</th><th scope="col">Lasted</th></tr></thead>
    <tbody>${(data ? data.workloads : []).map((w) => html`<tr key=${w.step_id}><td class="num">${w.step_id}</td><td class="num">${w.step_id * size}</td><td><${State} state=${w.state} /></td>${names.map((n) => html`<td class="num" key=${n.join()}>${fmt(num(value(w, n)))}</td>`)}<td>${w.checkpoint ? html`<span title=${w.checkpoint.uuid}>${w.checkpoint.state === "COMPLETED" ? "✓ " + bytes(w.checkpoint.size) : w.checkpoint.state.toLowerCase()}</span>` : ""}</td><td class="nowrap"><${Time} at=${w.end_time} /></td><td class="nowrap">${w.end_time ? lasted(w.start_time, w.end_time) : ""}</td></tr>`)}</tbody></table></div>
    ${data && !data.workloads.length && html`<p class="empty">No step is like that.</p>`}
    ${data && html`<${Pager} offset=${from} limit=${LIMIT} total=${data.total} onMove=${(o) => set({ offset: o || "" })} />`}</section>`;
}

// Parts of a whole as one bar and a table.
function Parts({ title, parts, format, note }) {
  const total = parts.reduce((s, [, v]) => s + v, 0);
  if (!total) return null;
  const draw = (g, w, h) => { let x = 0; parts.forEach(([, v], i) => { const d = (w * v) / total; g.fillStyle = colour(i); g.fillRect(x, 0, Math.max(0, d - 1), h); x += d; }); };
  return html`<section class="card"><h2>${title}</h2><div class="body"><${Canvas} height=${22} draw=${draw} deps=${[JSON.stringify(parts)]} label=${title + ": " + parts.map(([n, v]) => `${n} ${format(v)}`).join(", ")} />
    <div class="legend">${parts.map(([n, v], i) => html`<span key=${n}><i style=${{ background: colour(i) }}></i>${n} ${format(v)} (${((100 * v) / total).toFixed(0)} %)</span>`)}</div>${note && html`<p class="note">${note}</p>`}</div></section>`;
}

function Resources({ summary }) {
  if (!summary) return null;
  const positive = (o) => Object.entries(o).filter(([, v]) => v > 0), work = positive(summary.work), inside = positive(summary.time);
  const { memory, first } = summary;
  return html`<div><${Parts} title="Time by kind of work" parts=${work} format=${seconds} />
    <${Parts} title="Where the time of training goes" parts=${inside} format=${seconds} note="Recomputation is predicted from the costs of ops; the rest is measured." />
    ${memory && html`<section class="card"><h2>Memory</h2><div class="body"><dl class="facts"><div><dt>Peak</dt><dd class="big">${bytes(memory.peak_bytes)}</dd></div><div><dt>Budget</dt><dd class="big">${memory.budget_bytes === null ? "unlimited" : bytes(memory.budget_bytes)}</dd></div>${memory.floor_bytes && html`<div><dt>Floor</dt><dd class="big">${bytes(memory.floor_bytes)}</dd></div>`}<div><dt>Without limit</dt><dd class="big">${bytes(memory.unlimited_bytes)}</dd></div><div><dt>Weights and optimizer</dt><dd class="big">${bytes(memory.persistent_bytes)}</dd></div><div><dt>Data outside the budget</dt><dd class="big">${bytes(memory.buffer_bytes)}</dd></div></dl></div></section>`}
    ${first && first.managed && html`<section class="card" aria-label="the step inside the budget"><h2>The step in its budget</h2><div class="body"><${Managed} m=${first.managed} marks=${[["budget", memory.budget_bytes]]} /></div></section>`}
    ${first && html`<section class="card"><h2>Bytes over a step that keeps everything</h2><div class="body"><${Timeline} rows=${first.timeline} peak=${first.kinds} marks=${[memory.budget_bytes && memory.budget_bytes < memory.unlimited_bytes && ["budget", memory.budget_bytes], memory.floor_bytes && ["floor", memory.floor_bytes]].filter(Boolean)} /></div></section>`}
    ${!work.length && !memory && html`<p class="empty">Nothing is done yet.</p>`}
    ${work.length > 0 && !memory && html`<p class="note">Only built-in trials (entrypoint ebb:…) tell where their memory and time go.</p>`}</div>`;
}

function continued(config, t) {
  const s = config.searcher, keep = Object.fromEntries(["metric", "smaller_is_better"].filter((k) => s[k] !== undefined).map((k) => [k, s[k]]));
  return { ...config, description: `Continuation of trial ${t.id}`, hyperparameters: t.hparams, searcher: { name: "single", ...keep, max_steps: Math.max(1, t.steps), source_trial_id: t.id } };
}

export function Trial({ place, id, me }) {
  const q = place.query, set = useQuery(place), tab = q.tab || "metrics";
  const mine = (e) => e.trial_id === id && e.type !== "log";
  const { data: t, error, reload } = useData(`/trials/${id}`, mine);
  const summary = useData(`/trials/${id}/summary`, (x) => mine(x) && (tab === "resources" || x.type !== "step"), { ms: 2000 }).data;
  const e = useData(t ? `/experiments/${t.experiment_id}` : null).data, names = useData(t ? `/experiments/${t.experiment_id}/metric-names` : null, (x) => x.trial_id === id && x.type === "validation").data;
  const [asking, ask] = useState(false), [fork, setFork] = useState(null);
  useNow(1000, !!t && !t.end_time);
  useEffect(() => { document.title = `Trial ${id} · ebb`; }, [id]);
  const of = t && t.experiment_id;
  useEffect(() => listen((x) => of && x.experiment_id === of && x.type === "experiment" && x.state === "DELETING", () => { toast(`Experiment ${of} is deleted`); go("/experiments"); }), [of]);
  if (!t) return html`<${Missing} error=${error} what=${"Trial " + id} />`;
  return html`<div>
    <nav class="crumbs" aria-label="breadcrumb"><a href=${link("/experiments")}>Experiments</a> / <a href=${link("/experiments/" + t.experiment_id)}>${t.experiment_id}${e && e.description ? " · " + e.description : ""}</a> / trial ${id}</nav>
    <div class="head"><h1>Trial ${id}</h1><${State} state=${t.state} />${!me.read_only && html`<span class="actions">
      ${t.pid && html`<button class="danger" onClick=${() => ask(true)}>Kill process</button>`}
      ${e && e.tensorboard_path && html`<button onClick=${() => setFork("tensorboard")}>TensorBoard</button>`}${e && e.config && html`${summary && summary.checkpoints > 0 && html`<button onClick=${() => setFork("continue")}>Continue</button>`}<button onClick=${() => setFork("fork")}>Fork</button>`}</span>`}</div>
    ${t.message && html`<p class="error">${t.message}${tab !== "logs" && html` <a href=${link(place.path, { tab: "logs" })}>Its log</a>`}</p>`}${t.waiting && html`<p class="note">Waits: ${t.waiting}</p>`}
    <section class="card" aria-label="about it"><div class="body"><dl class="facts">
      <div><dt>Best ${e ? e.metric : "validation"}</dt><dd class="big">${t.best_validation === null ? "–" : fmt(num(t.best_validation))}</dd><dd class="note">${t.best_step_id ? "step " + t.best_step_id : ""}</dd></div>
      <div><dt>Latest</dt><dd class="big">${t.latest_validation === null ? "–" : fmt(num(t.latest_validation))}</dd></div>
      <div><dt>Steps</dt><dd class="big">${t.steps}</dd><dd class="note">${t.restarts} restart${t.restarts === 1 ? "" : "s"}</dd></div>
      <div><dt>Lasted</dt><dd class="big">${lasted(t.start_time, t.end_time)}</dd><dd class="note">since <${Time} at=${t.start_time} /></dd></div>
      <div><dt>Checkpoints</dt><dd class="big">${summary ? bytes(summary.checkpoint_bytes) : "–"}</dd><dd class="note">${summary && summary.checkpoints > 0 ? summary.checkpoints : ""}</dd></div><div><dt>Seed</dt><dd class="mono">${t.seed}</dd></div></dl></div></section>
    <${Tabs} label="parts of the trial" items=${tabs} at=${tab} onChange=${(k) => set({ tab: k === "metrics" ? "" : k, offset: "" })} />
    <div id="tab-panel" role="tabpanel" aria-labelledby=${"tab-" + tab}><${Guard} at=${location.hash}>
      ${tab === "metrics" ? html`<${Metrics} t=${t} config=${e && e.config} names=${names} q=${q} set=${set} />` : tab === "steps" ? html`<${Steps} t=${t} names=${names} config=${e && e.config} q=${q} set=${set} />` : tab === "resources" ? html`<${Resources} summary=${summary} />`
      : tab === "hparams" ? html`<section class="card"><h2>Hyperparameters</h2><div class="scroll"><table><thead><tr><th scope="col">Name</th><th scope="col" class="num">Value</th></tr></thead><tbody>${Object.entries(t.hparams).map(([k, v]) => html`<tr key=${k}><td>${k}</td><td class="num">${fmt(v)}</td></tr>`)}</tbody></table></div></section>`
      : html`<${Logs} path=${`/trials/${id}/logs`} title="Log" q=${q} put=${set} wants=${(x) => x.type === "log" && x.trial_id === id} />`}<//></div>
    ${asking && html`<${Dialog} title="Kill its process?" submit="Kill it" danger onClose=${() => ask(false)} onSubmit=${async () => { await api.post(`/trials/${id}/kill`); reload(); }}><p>That counts as a failure: it starts again from its last checkpoint while restarts are left.</p><//>`}
    ${fork === "tensorboard" && html`<${TensorBoard} words=${"--trials " + id} path=${e.tensorboard_path} onClose=${() => setFork(null)} />`}
    ${fork && fork !== "tensorboard" && html`<${ForkDialog} title=${fork === "continue" ? `Continue trial ${id}` : `Fork the experiment of trial ${id}`} config=${fork === "continue" ? continued(e.config, t) : { ...e.config, hyperparameters: t.hparams }} parent=${t.experiment_id} onClose=${() => setFork(null)} />`}
  </div>`;
}
