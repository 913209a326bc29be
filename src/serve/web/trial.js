// trial.js - one trial: its metrics, steps, log, hyperparameters, where its memory and time went.
import { html, useState, useEffect, useMemo } from "./preact.js";
import * as api from "./api.js";
import { useData, useQuery, go, link, act, State, Time, Failed, Dialog, Tabs, lasted, fmt, num, bytes, seconds, useNow, isEnded } from "./ui.js";
import { Curves, Canvas, Timeline, colour } from "./chart.js";
import { axisX, xLabels, perEpoch, ForkDialog } from "./experiment.js";
import { Logs } from "./logs.js";

const tabs = [["metrics", "Metrics"], ["steps", "Steps"], ["resources", "Memory and time"], ["hparams", "Hyperparameters"], ["logs", "Log"]];
const parse = (t) => (t ? Date.parse(t) / 1000 : null);
const span = (a, b) => (a && b ? parse(b) - parse(a) : 0);

// Names of metrics in the work so far.
function namesOf(workloads) {
  const training = new Set(), validation = new Set();
  workloads.forEach((w) => {
    Object.keys((w.metrics && w.metrics.avg_metrics) || {}).forEach((n) => training.add(n));
    Object.keys((w.validation && w.validation.metrics && w.validation.metrics.validation_metrics) || {}).forEach((n) => validation.add(n));
  });
  return [...[...validation].sort().map((n) => ["validation", n]), ...[...training].sort().map((n) => ["training", n])];
}

function Metrics({ t, config, workloads, q, set }) {
  const names = useMemo(() => namesOf(workloads), [workloads]), size = (config && config.batches_per_step) || 100;
  const chosen = q.m ? q.m.split(",") : names.slice(0, 2).map(([k, n]) => k + ":" + n), epochs = perEpoch(config, t.hparams);
  const flip = (key) => set({ m: (chosen.includes(key) ? chosen.filter((c) => c !== key) : [...chosen, key]).join(",") });
  const series = useMemo(() => chosen.map((key) => {
    const kind = key.slice(0, key.indexOf(":")), name = key.slice(key.indexOf(":") + 1), c = { batches: [], times: [], values: [] };
    workloads.forEach((w) => {
      const part = kind === "training" ? w.metrics && w.metrics.avg_metrics : w.validation && w.validation.metrics && w.validation.metrics.validation_metrics;
      if (!part || part[name] === undefined || part[name] === null) return;
      c.batches.push(w.step_id * size);
      c.times.push(parse(kind === "training" ? w.end_time : w.validation.end_time));
      c.values.push(num(part[name]));
    });
    return { label: `${name} (${kind})`, x: axisX(q.x, c, parse(t.start_time), epochs || 1), y: c.values };
  }).filter((s) => s.x.length), [workloads, q.m, q.x, size, epochs]);
  return html`<section class="card"><div class="card-head"><h2>Metrics</h2><div class="toolbar">
      <label class="inline">against <select value=${q.x || "batches"} onChange=${(e) => set({ x: e.target.value === "batches" ? "" : e.target.value })}>${["batches", ...(epochs ? ["epochs"] : []), "seconds", "time"].map((k) => html`<option key=${k} value=${k}>${k}</option>`)}</select></label>
      <label class="inline"><input type="checkbox" checked=${!!q.log} onChange=${(e) => set({ log: e.target.checked ? "1" : "" })} /> log scale</label>
      <label class="inline">smoothing <input type="range" min="0" max="0.95" step="0.05" value=${q.smooth || 0} onInput=${(e) => set({ smooth: Number(e.target.value) ? e.target.value : "" })} /></label></div></div>
    <div class="body"><div class="toolbar" role="group" aria-label="metrics">${names.map(([k, n]) => html`<button key=${k + n} aria-pressed=${chosen.includes(k + ":" + n) ? "true" : "false"} onClick=${() => flip(k + ":" + n)}>${n} <span class="note">${k}</span></button>`)}</div>
    <${Curves} series=${series} logY=${!!q.log} smoothing=${Number(q.smooth) || 0} xLabel=${xLabels[q.x || "batches"]} xTime=${q.x === "time"} label=${"metrics of trial " + t.id} /></div></section>`;
}

function Steps({ workloads, config, q, set }) {
  const rows = workloads.filter((w) => (!q.has || (q.has === "checkpoint" ? w.checkpoint : w.validation))), size = (config && config.batches_per_step) || 100;
  const names = namesOf(workloads).slice(0, 5), [from, move] = useState(0), LIMIT = 100;
  const value = (w, [k, n]) => { const p = k === "training" ? w.metrics && w.metrics.avg_metrics : w.validation && w.validation.metrics && w.validation.metrics.validation_metrics; return p ? p[n] : undefined; };
  const shown = [...rows].reverse().slice(from, from + LIMIT);
  return html`<section class="card"><div class="card-head"><h2>Steps</h2><span class="actions" role="group" aria-label="only those with">${["checkpoint", "validation"].map((k) => html`<button key=${k} aria-pressed=${q.has === k ? "true" : "false"} onClick=${() => { move(0); set({ has: q.has === k ? "" : k }); }}>with ${k}</button>`)}</span></div>
    <div class="scroll"><table><caption class="visually-hidden">Steps</caption><thead><tr><th scope="col" class="num">Step</th><th scope="col" class="num">Batches</th><th scope="col">State</th>${names.map(([k, n]) => html`<th scope="col" class="num" key=${k + n}>${n} (${k})</th>`)}<th scope="col">Checkpoint</th><th scope="col">Ended</th><th scope="col">Lasted</th></tr></thead>
    <tbody>${shown.map((w) => html`<tr key=${w.step_id}><td class="num">${w.step_id}</td><td class="num">${w.step_id * size}</td><td><${State} state=${w.state} /></td>${names.map((n) => html`<td class="num" key=${n.join()}>${fmt(num(value(w, n)))}</td>`)}<td>${w.checkpoint ? html`<span title=${w.checkpoint.uuid}>${w.checkpoint.state === "COMPLETED" ? "✓ " + bytes(w.checkpoint.size) : w.checkpoint.state.toLowerCase()}</span>` : ""}</td><td class="nowrap"><${Time} at=${w.end_time} /></td><td class="nowrap">${w.end_time ? lasted(w.start_time, w.end_time) : ""}</td></tr>`)}</tbody></table></div>
    <div class="pager"><span>${rows.length} steps, the newest first</span><span class="actions"><button disabled=${from === 0} onClick=${() => move(Math.max(0, from - LIMIT))}>Newer</button><button disabled=${from + LIMIT >= rows.length} onClick=${() => move(from + LIMIT)}>Older</button></span></div></section>`;
}

// Parts of a whole as one bar and a table.
function Parts({ title, parts, format, note }) {
  const total = parts.reduce((s, [, v]) => s + v, 0);
  if (!total) return null;
  const draw = (g, w, h) => { let x = 0; parts.forEach(([, v], i) => { const d = (w * v) / total; g.fillStyle = colour(i); g.fillRect(x, 0, Math.max(0, d - 1), h); x += d; }); };
  return html`<section class="card"><h2>${title}</h2><div class="body"><${Canvas} height=${22} draw=${draw} deps=${[JSON.stringify(parts)]} label=${title + ": " + parts.map(([n, v]) => `${n} ${format(v)}`).join(", ")} />
    <div class="legend">${parts.map(([n, v], i) => html`<span key=${n}><i style=${{ background: colour(i) }}></i>${n} ${format(v)} (${((100 * v) / total).toFixed(0)} %)</span>`)}</div>${note && html`<p class="note">${note}</p>`}</div></section>`;
}

function Resources({ workloads }) {
  const sum = (f) => workloads.reduce((s, w) => s + (f(w) || 0), 0), told = workloads.map((w) => w.metrics && w.metrics.resources).filter(Boolean);
  const work = [["training", sum((w) => span(w.start_time, w.end_time))], ["validation", sum((w) => w.validation && span(w.validation.start_time, w.validation.end_time))], ["checkpoints", sum((w) => w.checkpoint && span(w.checkpoint.start_time, w.checkpoint.end_time))]].filter(([, v]) => v > 0);
  const inside = ["kernels", "recomputation", "copies", "data"].map((n) => [n, told.reduce((s, t) => s + ((t.time && t.time[n]) || 0), 0)]).filter(([, v]) => v > 0);
  const memory = told.length ? told[told.length - 1].memory : null, first = told.find((t) => t.memory && t.memory.timeline);
  return html`<div><${Parts} title="Time by kind of work" parts=${work} format=${seconds} />
    <${Parts} title="Where the time of training goes" parts=${inside} format=${seconds} note="Recomputation is predicted from the costs of ops; the rest is measured." />
    ${memory && html`<section class="card"><h2>Memory</h2><div class="body"><dl class="facts"><div><dt>Peak</dt><dd class="big">${bytes(memory.peak_bytes)}</dd></div><div><dt>Budget</dt><dd class="big">${memory.budget_bytes === null ? "unlimited" : bytes(memory.budget_bytes)}</dd></div>${memory.floor_bytes && html`<div><dt>Floor</dt><dd class="big">${bytes(memory.floor_bytes)}</dd></div>`}<div><dt>Without limit</dt><dd class="big">${bytes(memory.unlimited_bytes)}</dd></div><div><dt>Weights and optimizer</dt><dd class="big">${bytes(memory.persistent_bytes)}</dd></div><div><dt>Data outside the budget</dt><dd class="big">${bytes(memory.buffer_bytes)}</dd></div></dl></div></section>`}
    ${first && html`<section class="card"><h2>Bytes over a step that keeps everything</h2><div class="body"><${Timeline} rows=${first.memory.timeline} peak=${first.memory.kinds} marks=${[memory.budget_bytes && memory.budget_bytes < memory.unlimited_bytes && ["budget", memory.budget_bytes], memory.floor_bytes && ["floor", memory.floor_bytes]].filter(Boolean)} /></div></section>`}
    ${!work.length && !told.length && html`<p class="empty">Nothing is done yet.</p>`}
    ${work.length > 0 && !told.length && html`<p class="note">Only built-in trials (entrypoint ebb:…) tell where their memory and time go.</p>`}</div>`;
}

function continued(config, t) {
  const s = config.searcher, keep = Object.fromEntries(["metric", "smaller_is_better"].filter((k) => s[k] !== undefined).map((k) => [k, s[k]]));
  return { ...config, description: `Continuation of trial ${t.id}`, hyperparameters: t.hparams, searcher: { name: "single", ...keep, max_steps: Math.max(1, t.steps), source_trial_id: t.id } };
}

export function Trial({ place, id, me }) {
  const q = place.query, set = useQuery(place), tab = q.tab || "metrics";
  const mine = (e) => e.trial_id === id && e.type !== "log";
  const { data: t, error, reload } = useData(`/trials/${id}`, mine);
  const work = useData(`/trials/${id}/workloads`, mine).data, workloads = work ? work.workloads : [];
  const e = useData(t ? `/experiments/${t.experiment_id}` : null).data;
  const [asking, ask] = useState(false), [fork, setFork] = useState(null);
  useNow(1000, !!t && !t.end_time);
  useEffect(() => { document.title = `Trial ${id} · ebb`; }, [id]);
  if (!t) return html`<div><${Failed} error=${error} />${!error && html`<p class="note">…</p>`}</div>`;
  const size = workloads.reduce((s, w) => s + ((w.checkpoint && w.checkpoint.state === "COMPLETED" && w.checkpoint.size) || 0), 0);
  return html`<div>
    <nav class="crumbs" aria-label="breadcrumb"><a href=${link("/experiments")}>Experiments</a> / <a href=${link("/experiments/" + t.experiment_id)}>${t.experiment_id}${e && e.description ? " · " + e.description : ""}</a> / trial ${id}</nav>
    <div class="head"><h1>Trial ${id}</h1><${State} state=${t.state} />${!me.read_only && html`<span class="actions">
      ${t.pid && html`<button class="danger" onClick=${() => ask(true)}>Kill process</button>`}
      ${e && e.config && html`<button onClick=${() => setFork("continue")}>Continue</button><button onClick=${() => setFork("fork")}>Fork</button>`}</span>`}</div>
    ${t.message && html`<p class="error">${t.message}</p>`}${t.waiting && html`<p class="note">Waits: ${t.waiting}</p>`}
    <section class="card" aria-label="about it"><div class="body"><dl class="facts">
      <div><dt>Best ${e ? e.metric : "validation"}</dt><dd class="big">${t.best_validation === null ? "–" : fmt(num(t.best_validation))}</dd><dd class="note">${t.best_step_id ? "step " + t.best_step_id : ""}</dd></div>
      <div><dt>Latest</dt><dd class="big">${t.latest_validation === null ? "–" : fmt(num(t.latest_validation))}</dd></div>
      <div><dt>Steps</dt><dd class="big">${t.steps}</dd><dd class="note">${t.restarts} restart${t.restarts === 1 ? "" : "s"}</dd></div>
      <div><dt>Lasted</dt><dd class="big">${lasted(t.start_time, t.end_time)}</dd><dd class="note">since <${Time} at=${t.start_time} /></dd></div>
      <div><dt>Checkpoints</dt><dd class="big">${bytes(size)}</dd></div><div><dt>Seed</dt><dd class="mono">${t.seed}</dd></div></dl></div></section>
    <${Tabs} label="parts of the trial" items=${tabs} at=${tab} onChange=${(k) => set({ tab: k === "metrics" ? "" : k })} />
    <div id="tab-panel" role="tabpanel" aria-labelledby=${"tab-" + tab}>
      ${tab === "metrics" ? html`<${Metrics} t=${t} config=${e && e.config} workloads=${workloads} q=${q} set=${set} />` : tab === "steps" ? html`<${Steps} workloads=${workloads} config=${e && e.config} q=${q} set=${set} />` : tab === "resources" ? html`<${Resources} workloads=${workloads} />`
      : tab === "hparams" ? html`<section class="card"><h2>Hyperparameters</h2><div class="scroll"><table><thead><tr><th scope="col">Name</th><th scope="col" class="num">Value</th></tr></thead><tbody>${Object.entries(t.hparams).map(([k, v]) => html`<tr key=${k}><td>${k}</td><td class="num">${fmt(v)}</td></tr>`)}</tbody></table></div></section>`
      : html`<${Logs} path=${`/trials/${id}/logs`} title="Log" levels wants=${(x) => x.type === "log" && x.trial_id === id} live=${!isEnded(t.state) || true} />`}</div>
    ${asking && html`<${Dialog} title="Kill its process?" submit="Kill it" danger onClose=${() => ask(false)} onSubmit=${async () => { await api.post(`/trials/${id}/kill`); reload(); }}><p>That counts as a failure: it starts again from its last checkpoint while restarts are left.</p><//>`}
    ${fork && html`<${ForkDialog} title=${fork === "continue" ? `Continue trial ${id}` : `Fork the experiment of trial ${id}`} config=${fork === "continue" ? continued(e.config, t) : { ...e.config, hyperparameters: t.hparams }} parent=${t.experiment_id} onClose=${() => setFork(null)} />`}
  </div>`;
}
