// explore.js - all trials of an experiment at once: parallel coordinates with brushes, scatter plots, heat map, importance.
import { html, useState, useMemo, useRef, useEffect } from "./preact.js";
import { useData, useQuery, go, link, listOf, fmt, short, num, own, Failed, Typed } from "./ui.js";
import * as api from "./api.js";
import { Canvas, TableOf, axisOf, scaleColour, scaleRgb, useTheme } from "./chart.js";
import { raster, rgb } from "./raster.js";

const M = { top: 34, bottom: 26, side: 60 };
const MANY = 400, WHILE_DRAGGING = 1500, SHADES = 24, ROWS = 100;

// Trials as columns of numbers, made once: where each lies on each axis (0..1, NaN: nowhere), its shade (0 = best, -1 = it has no metric), its rank.
const METRIC = "\0metric"; // no hyperparameter has that name: a metric may have one's
function useSpace(data, config) {
  return useMemo(() => {
    if (!data) return null;
    const trials = data.trials, n = trials.length, value = trials.map((t) => num(t.value)), sign = data.smaller_is_better ? 1 : -1;
    const byRank = [...trials.keys()].sort((a, b) => {
      const x = Number.isFinite(value[a]), y = Number.isFinite(value[b]);
      return x && y ? sign * (value[a] - value[b]) || a - b : x ? -1 : y ? 1 : a - b;
    });
    const finite = value.reduce((s, v) => s + Number.isFinite(v), 0), shade = new Int8Array(n).fill(-1);
    // by rank: an outlier must not take all colours away
    byRank.forEach((i, rank) => { if (rank < finite) shade[i] = Math.round(((SHADES - 1) * rank) / Math.max(1, finite - 1)); });
    const made = new Map();
    const column = (name) => {
      if (!made.has(name)) {
        const isMetric = name === METRIC, k = data.names.indexOf(name), of = isMetric ? (i) => value[i] : (i) => trials[i].hparams[k], all = trials.map((_, i) => of(i));
        const drawn = !isMetric && config && config.hyperparameters && own(config.hyperparameters, name), axis = axisOf(all, isMetric, drawn && ["log", "int", "double"].includes(drawn.type) ? drawn.type === "log" : undefined);
        made.set(name, { ...axis, name, label: isMetric ? data.metric : name, at: Float32Array.from(all, (v) => axis.place(v)) });
      }
      return made.get(name);
    };
    return { trials, value, byRank, shade, column };
  }, [data]); // the configuration of an experiment stays as it is
}
// A text cut to what it has room for.
function fit(g, text, width) {
  if (g.measureText(text).width <= width) return text;
  let n = Math.min(text.length, 60);
  while (n > 1 && g.measureText(text.slice(0, n) + "…").width > width) n--;
  return text.slice(0, n) + "…";
}
const shadeRgb = (s) => scaleRgb(s < 0 ? NaN : s / (SHADES - 1));
const shadeColour = (s, alpha) => scaleColour(s < 0 ? NaN : s / (SHADES - 1), alpha);

// Trials by shade, the worst first: what is good is drawn over the rest. kept: a mask; step: only every so manieth.
function byShade(space, kept, step) {
  const groups = Array.from({ length: SHADES + 1 }, () => []);
  let n = 0;
  for (let i = 0; i < kept.mask.length; i++) if (kept.mask[i] && n++ % step === 0) groups[space.shade[i] + 1].push(i);
  return [groups[0], ...groups.slice(1).reverse()].map((list) => [list.length ? space.shade[list[0]] : -1, list]).filter(([, list]) => list.length);
}

// Axes: hyperparameters and the metric. Drag on an axis: only trials in that range stay; the same by numbers below.
function Parallel({ data, space, names, brushes, setBrushes, kept, quiet }) {
  const axes = useMemo(() => names.map((n) => space.column(n)), [space, names]), theme = useTheme();
  const drag = useRef(null), size = useRef([0, 0]);
  const x = (i, w) => M.side + (axes.length > 1 ? (i * (w - 2 * M.side)) / (axes.length - 1) : (w - 2 * M.side) / 2);
  const y = (t, h) => h - M.bottom - t * (h - M.top - M.bottom);
  const strokes = (g, w, h, c) => {
    const line = (t) => {
      let pen = false;
      axes.forEach((a, i) => {
        const p = a.at[t];
        if (Number.isNaN(p)) { pen = false; return; }
        if (pen) g.lineTo(x(i, w), y(p, h));
        else g.moveTo(x(i, w), y(p, h));
        pen = true;
      });
    };
    if (kept.size < kept.mask.length && kept.mask.length <= MANY) { g.strokeStyle = c.line; g.lineWidth = 1; g.beginPath(); kept.mask.forEach((is, t) => { if (!is) line(t); }); g.stroke(); }
    g.lineWidth = 1.6;
    byShade(space, kept, 1).forEach(([shade, list]) => { g.strokeStyle = shadeColour(shade, 0.8); g.beginPath(); list.forEach(line); g.stroke(); });
  };
  const pixels = (g, w, h, c) => {
    const r = raster(g, c.surface), step = quiet ? 1 : Math.max(1, Math.floor(kept.size / WHILE_DRAGGING)), opacity = kept.size / step > 3000 ? 0.3 : 0.5;
    const xs = axes.map((_, i) => c.ratio * x(i, w)), bottom = c.ratio * (h - M.bottom), span = c.ratio * (h - M.top - M.bottom);
    byShade(space, kept, step).forEach(([shade, list]) => {
      r.pen(shadeRgb(shade), opacity);
      for (let i = 0; i + 1 < axes.length; i++) {
        const p = axes[i].at, q = axes[i + 1].at;
        for (const t of list) if (p[t] >= 0 && q[t] >= 0) r.line(xs[i], bottom - p[t] * span, xs[i + 1], bottom - q[t] * span);
      }
    });
    r.put();
  };
  const draw = (g, w, h, c) => {
    size.current = [w, h];
    if (kept.size > MANY) pixels(g, w, h, c);
    else strokes(g, w, h, c);
    const room = axes.length > 1 ? (w - 2 * M.side) / (axes.length - 1) - 8 : w;
    axes.forEach((a, i) => {
      const words = (text, y0) => { // beside the edges they lean inwards
        const t = fit(g, text, room), half = g.measureText(t).width / 2;
        g.textAlign = "center";
        g.fillText(t, Math.max(half, Math.min(w - half, x(i, w))), y0);
      };
      g.strokeStyle = c.muted;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(x(i, w), y(0, h));
      g.lineTo(x(i, w), y(1, h));
      g.stroke();
      g.fillStyle = c.text;
      g.font = "600 12px system-ui, sans-serif";
      words(a.label, 14);
      g.font = "11px system-ui, sans-serif";
      g.fillStyle = c.muted;
      const ends = a.isText ? [a.names[0], a.names[a.names.length - 1]] : [short(a.low), short(a.high)];
      words(ends[1] || "", M.top - 6);
      words(ends[0] || "", h - 8);
      const b = own(brushes, a.name);
      if (b) {
        g.fillStyle = c.accent;
        g.globalAlpha = 0.25;
        g.fillRect(x(i, w) - 9, y(b[1], h), 18, Math.max(3, y(b[0], h) - y(b[1], h)));
        g.globalAlpha = 1;
        g.strokeStyle = c.accent;
        g.strokeRect(x(i, w) - 9, y(b[1], h), 18, Math.max(3, y(b[0], h) - y(b[1], h)));
      }
    });
  };
  const at = (e) => {
    const r = e.currentTarget.getBoundingClientRect(), [w, h] = size.current;
    const px = e.clientX - r.left, i = axes.reduce((best, _, k) => (Math.abs(x(k, w) - px) < Math.abs(x(best, w) - px) ? k : best), 0);
    return { i, near: Math.abs(x(i, w) - px) < 26, t: Math.min(1, Math.max(0, (h - M.bottom - (e.clientY - r.top)) / (h - M.top - M.bottom))) };
  };
  const down = (e) => { const p = at(e); if (!p.near) return; drag.current = { ...p, id: e.pointerId }; e.currentTarget.setPointerCapture(e.pointerId); };
  const move = (e) => {
    if (!drag.current) return;
    const d = drag.current, t = at(e).t, name = axes[d.i].name;
    setBrushes({ ...brushes, [name]: [Math.min(d.t, t), Math.max(d.t, t)] });
  };
  const up = (e) => {
    const d = drag.current;
    drag.current = null;
    if (d && Math.abs(at(e).t - d.t) < 0.01) { const { [axes[d.i].name]: gone, ...rest } = brushes; setBrushes(rest); }
  };
  const bounds = (a) => (own(brushes, a.name) || []).map((t) => Number(a.back(t).toPrecision(6))).map((v) => (Number.isFinite(v) ? v : ""));
  const bound = (a, k, text) => {
    const v = text === "" ? null : Number(text), b = own(brushes, a.name) || [0, 1], p = v === null ? k : a.place(v);
    if (Number.isNaN(p)) return;
    const n = [...b];
    n[k] = Math.min(1, Math.max(0, p));
    const { [a.name]: gone, ...rest } = brushes;
    setBrushes(n[0] <= 0 && n[1] >= 1 ? rest : { ...rest, [a.name]: n });
  };
  return html`<div>
    <div class="scroll" tabindex="0" role="region" aria-label="parallel coordinates"><div style=${{ minWidth: Math.max(300, axes.length * 90) + "px" }}>
      <${Canvas} height=${360} draw=${draw} deps=${[axes, brushes, kept, quiet]} label=${`parallel coordinates of ${data.trials.length} trials over ${axes.map((a) => a.label).join(", ")}; ${kept.size} are in the chosen ranges`} onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} style=${{ touchAction: "none", cursor: "crosshair" }} /></div></div>
    <p class="scale" key=${theme}><span>best ${data.metric}</span><i style=${{ background: `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map((t) => scaleColour(t)).join(", ")})` }}></i><span>worst</span><span class="note">Drag along an axis to keep a range; click it to let go.</span></p>
    <details><summary>Ranges by numbers</summary><div class="toolbar">${axes.filter((a) => !a.isText).map((a) => html`<fieldset key=${a.name} style=${{ border: 0, padding: 0, margin: 0 }}><legend class="note">${a.label}</legend>
      <${Typed} type="number" step="any" style=${{ width: "8em" }} aria-label=${"least " + a.label} placeholder=${fmt(a.low)} value=${bounds(a)[0]} onTake=${(v) => bound(a, 0, v)} />
      <${Typed} type="number" step="any" style=${{ width: "8em" }} aria-label=${"greatest " + a.label} placeholder=${fmt(a.high)} value=${bounds(a)[1]} onTake=${(v) => bound(a, 1, v)} /></fieldset>`)}</div></details>
  </div>`;
}

// The metric against one hyperparameter; trials out of the ranges are faint. A dot under the pointer tells its trial, a click opens it.
const S = { left: 60, right: 14, top: 14, bottom: 30 };
function Scatter({ data, space, name, kept }) {
  const ax = space.column(name), ay = space.column(METRIC), [tip, point] = useState(null), size = useRef([0, 0]);
  const px = (i, w) => S.left + ax.at[i] * (w - S.left - S.right), py = (i, h) => h - S.bottom - ay.at[i] * (h - S.top - S.bottom);
  const is = (i) => ax.at[i] >= 0 && ay.at[i] >= 0;
  const gone = kept.size < kept.mask.length;
  const pixels = (g, w, h, c) => {
    const r = raster(g, c.surface), dot = Math.max(2, Math.round(2 * c.ratio));
    r.pen(rgb(c.line), 1);
    if (gone) kept.mask.forEach((k, i) => { if (!k && is(i)) r.square(c.ratio * px(i, w), c.ratio * py(i, h), dot); });
    byShade(space, kept, 1).forEach(([shade, list]) => { r.pen(shadeRgb(shade), 0.75); for (const i of list) if (is(i)) r.square(c.ratio * px(i, w), c.ratio * py(i, h), dot); });
    r.put();
  };
  const discs = (g, w, h, c) => {
    const disc = (i, radius) => { if (!is(i)) return; g.beginPath(); g.arc(px(i, w), py(i, h), radius, 0, 7); g.fill(); };
    g.fillStyle = c.line;
    if (gone) kept.mask.forEach((k, i) => { if (!k) disc(i, 2.5); });
    byShade(space, kept, 1).forEach(([shade, list]) => { g.fillStyle = shadeColour(shade, 0.8); list.forEach((i) => disc(i, 3.5)); });
  };
  const draw = (g, w, h, c) => {
    size.current = [w, h];
    if (data.trials.length > MANY) pixels(g, w, h, c);
    else discs(g, w, h, c);
    g.strokeStyle = c.line;
    g.strokeRect(54.5, 6.5, w - 62, h - 30);
    g.fillStyle = c.muted;
    g.font = "11px system-ui, sans-serif";
    g.textAlign = "right";
    g.fillText(short(ay.high), 50, 14);
    g.fillText(short(ay.low), 50, h - 26);
    g.fillText(fit(g, ax.isText ? ax.names[ax.names.length - 1] || "" : short(ax.high), (w - 70) / 2), w - 8, h - 8);
    g.textAlign = "left";
    g.fillText(fit(g, ax.isText ? ax.names[0] || "" : short(ax.low), (w - 70) / 2), 54, h - 8);
  };
  const nearest = (e) => {
    const r = e.currentTarget.getBoundingClientRect(), [w, h] = size.current, x = e.clientX - r.left, y = e.clientY - r.top;
    let best = -1, least = 100; // of squared pixels
    for (let i = 0; i < kept.mask.length; i++) {
      if (!kept.mask[i] || !is(i)) continue;
      const d = (px(i, w) - x) ** 2 + (py(i, h) - y) ** 2;
      if (d < least) { least = d; best = i; }
    }
    return best;
  };
  const move = (e) => { const i = nearest(e); point(i < 0 ? null : { i, x: px(i, size.current[0]), y: py(i, size.current[1]) }); };
  const open = (e) => { const i = nearest(e); if (i >= 0) go("/trials/" + space.trials[i].id); };
  const k = data.names.indexOf(name);
  return html`<figure><figcaption>${data.metric} against <strong>${name}</strong>${ax.useLog ? " (log)" : ""}</figcaption><div style=${{ position: "relative" }}>
    <${Canvas} height=${190} draw=${draw} deps=${[space, ax, ay, kept]} label=${`${data.metric} against ${name}, ${kept.size} trials`} onPointerMove=${move} onPointerLeave=${() => point(null)} onClick=${open} style=${{ cursor: tip ? "pointer" : "default" }} />
    ${tip && html`<div class="tip" style=${{ left: tip.x + "px", top: tip.y + "px" }}>trial ${space.trials[tip.i].id}: ${fmt(space.value[tip.i])}, ${name} ${fmt(space.trials[tip.i].hparams[k])}</div>`}</div></figure>`;
}

// Pairs of hyperparameters: the mean metric of the trials in each cell.
function Heat({ data, space, names, kept, q, set }) {
  const known = (name, other) => (names.includes(name) ? name : other), a = known(q.across, names[0]), b = known(q.up, names[1] || names[0]), N = 10, ax = space.column(a), ay = space.column(b);
  const cells = useMemo(() => {
    const nx = ax.isText ? ax.names.length : N, ny = ay.isText ? ay.names.length : N, sum = new Map();
    for (let t = 0; t < kept.mask.length; t++) {
      if (!kept.mask[t] || !(ax.at[t] >= 0) || !(ay.at[t] >= 0) || !Number.isFinite(space.value[t])) continue;
      const i = Math.min(nx - 1, Math.floor(ax.at[t] * nx)), j = Math.min(ny - 1, Math.floor(ay.at[t] * ny)), s = sum.get(j * nx + i) || [0, 0];
      sum.set(j * nx + i, [s[0] + space.value[t], s[1] + 1]);
    }
    const means = [...sum.values()].map(([s, n]) => s / n).sort((x, y) => x - y);
    return { nx, ny, sum, rank: (v) => (means.length > 1 ? means.indexOf(v) / (means.length - 1) : 0) };
  }, [space, ax, ay, kept]);
  const range = (axis, n, i) => (axis.isText ? axis.names[i] : `${fmt(axis.back(i / n))} – ${fmt(axis.back((i + 1) / n))}`);
  const draw = (g, w, h, c) => {
    const cw = (w - 80) / cells.nx, ch = (h - 36) / cells.ny;
    cells.sum.forEach(([s, n], key) => {
      const i = key % cells.nx, j = Math.floor(key / cells.nx), t = cells.rank(s / n);
      g.fillStyle = scaleColour(data.smaller_is_better ? t : 1 - t);
      g.fillRect(70 + i * cw + 1, 6 + (cells.ny - 1 - j) * ch + 1, cw - 2, ch - 2);
    });
    g.strokeStyle = c.line;
    g.strokeRect(70, 6, cw * cells.nx, ch * cells.ny);
    g.fillStyle = c.muted;
    g.font = "11px system-ui, sans-serif";
    g.textAlign = "right";
    g.fillText(fit(g, ay.isText ? ay.names[cells.ny - 1] || "" : short(ay.high), 62), 64, 16);
    g.fillText(fit(g, ay.isText ? ay.names[0] || "" : short(ay.low), 62), 64, h - 32);
    g.fillText(fit(g, ax.isText ? ax.names[cells.nx - 1] || "" : short(ax.high), (w - 90) / 2), w - 10, h - 12);
    g.textAlign = "left";
    g.fillText(fit(g, ax.isText ? ax.names[0] || "" : short(ax.low), (w - 90) / 2), 70, h - 12);
  };
  const pick = (value, f, label) => html`<label class="inline">${label} <select value=${value} onChange=${(e) => f(e.target.value)}>${names.map((n) => html`<option key=${n} value=${n}>${n}</option>`)}</select></label>`;
  return html`<div><div class="toolbar">${pick(a, (v) => set({ across: v }), "across")}${pick(b, (v) => set({ up: v }), "up")}</div>
    <${Canvas} height=${300} draw=${draw} deps=${[cells]} label=${`mean ${data.metric} over ${a} and ${b}`} />
    <${TableOf} columns=${[a, b, "mean " + data.metric, "trials"]} rows=${[...cells.sum].map(([key, [s, n]]) => [range(ax, cells.nx, key % cells.nx), range(ay, cells.ny, Math.floor(key / cells.nx)), s / n, n])} /></div>`;
}

function Importance({ id, asked }) {
  const { data, error } = useData(`/experiments/${id}/importance` + api.query(asked), (e) => e.experiment_id === id && e.type === "validation");
  const rows = data ? [...data.importance].sort((a, b) => b.importance - a.importance) : [];
  return html`<section class="card"><h2>What matters</h2><div class="body"><${Failed} error=${error} />
    ${rows.length ? html`<dl class="hbars">${rows.map((r) => html`<dt key=${"t" + r.name}>${r.name}</dt><dd key=${"b" + r.name}><${"span"} class="bar"><span style=${{ width: (100 * r.importance).toFixed(1) + "%" }}></span><//></dd><dd key=${"v" + r.name} class="mono">${(100 * r.importance).toFixed(0)} %</dd>`)}</dl>
      <p class="note">Of the variance of ${data.metric} that a random forest over ${data.trials} trials explains.</p>` : html`<p class="note">No hyperparameter varies yet.</p>`}</div></section>`;
}

// Which metric, and after how many batches: empty is the best (the searched one) or latest (another) of each trial.
function Controls({ id, q, set, size }) {
  const names = useData(`/experiments/${id}/metric-names`).data;
  return html`<span class="toolbar"><label class="inline">Metric <select value=${q.kind === "training" ? "" : q.metric || ""} onChange=${(e) => set({ metric: e.target.value, kind: "" })}><option value="">${names ? names.searcher_metric + " (searched)" : "…"}</option>${names && names.validation.map((n) => html`<option key=${n} value=${n}>${n}</option>`)}</select></label>
    <label class="inline">after <${Typed} type="number" min=${size} step=${size} placeholder=${q.metric && q.kind !== "training" ? "the latest" : "the best"} style=${{ width: "7.5em" }} value=${q.at || ""} onTake=${(v) => set({ at: v })} /> batches</label></span>`;
}

// Ranges as the address has them: "name:0.25:1", parts of an axis.
const readRanges = (list) => Object.fromEntries(list.map((r) => /^(.+):([\d.]+):([\d.]+)$/s.exec(r)).filter(Boolean).map(([, name, lo, hi]) => [name, [Number(lo), Number(hi)]]));
const writeRanges = (brushes) => Object.entries(brushes).map(([name, ends]) => [name, ...ends.map((v) => String(Number(v.toFixed(4))))].join(":"));
const NO_AXIS = "-";

export function Explore({ id, place, config }) {
  const q = place.query, set = useQuery(place), size = (config && config.batches_per_step) || 100;
  const asked = { metric: q.kind === "training" ? "" : q.metric, step: q.at ? Math.max(1, Math.round(Number(q.at) / size)) : "" };
  const { data, error } = useData(`/experiments/${id}/points` + api.query(asked), (e) => e.experiment_id === id && e.type !== "log" && e.type !== "step");
  const space = useSpace(data, config), [brushes, setBrushes] = useState(() => readRanges(listOf(q.range))), shown = listOf(q.axis), show = (l) => set({ axis: l.length ? l : NO_AXIS });
  const names = data ? (shown.length ? shown : data.varying).filter((n) => data.names.includes(n)) : [], chosen = names.join("\n");
  useEffect(() => { const t = setTimeout(() => set({ range: writeRanges(brushes) }), 300); return () => clearTimeout(t); }, [brushes]); // when the hand rests
  const axes = useMemo(() => (data ? [...names, METRIC] : []), [data, chosen]);
  const kept = useMemo(() => {
    const n = data ? data.trials.length : 0, mask = new Uint8Array(n).fill(1);
    let count = n;
    Object.entries(brushes).forEach(([name, [lo, hi]]) => {
      if (!space || (name !== METRIC && !data.names.includes(name))) return;
      const { at } = space.column(name);
      for (let i = 0; i < n; i++) if (mask[i] && !(at[i] >= lo - 1e-6 && at[i] <= hi + 1e-6)) { mask[i] = 0; count--; }
    });
    return { mask, size: count };
  }, [space, brushes]);
  // What is dear to draw follows when the hand rests.
  const [settled, settle] = useState(kept), still = settled.mask.length === kept.mask.length ? settled : kept;
  useEffect(() => { const t = setTimeout(() => settle(kept), data && data.trials.length > MANY ? 80 : 0); return () => clearTimeout(t); }, [kept]);
  const rows = useMemo(() => (space ? space.byRank.filter((i) => still.mask[i]).slice(0, ROWS).map((i) => space.trials[i]) : []), [space, still]);
  // Preact draws what it is given again only when it is another: dragging changes none of this.
  const below = useMemo(() => data && space && html`<div>
      <div class="scroll" style=${{ maxHeight: "320px", overflowY: "auto" }} tabindex="0" role="region" aria-label="trials in the chosen ranges"><table><caption class="visually-hidden">Trials in the chosen ranges</caption><thead><tr><th scope="col" class="num">Trial</th><th scope="col">State</th><th scope="col" class="num">${data.metric}</th>${names.map((n) => html`<th scope="col" key=${n} class="num">${n}</th>`)}</tr></thead>
      <tbody>${rows.map((t) => html`<tr key=${t.id}><td class="num"><a href=${link("/trials/" + t.id)}>${t.id}</a></td><td>${t.state.toLowerCase()}</td><td class="num">${fmt(num(t.value))}</td>${names.map((n) => html`<td key=${n} class="num">${fmt(t.hparams[data.names.indexOf(n)])}</td>`)}</tr>`)}</tbody></table></div>
      ${still.size > ROWS && html`<p class="pager">The best ${ROWS} of ${still.size}.</p>`}</div>`, [rows, axes]);
  const plots = useMemo(() => data && space && html`<div><div class="grid"><${Importance} id=${id} asked=${asked} />
      ${data.varying.length > 1 && html`<section class="card"><h2>Heat map</h2><div class="body"><${Heat} data=${data} space=${space} names=${data.varying} kept=${still} q=${q} set=${set} /></div></section>`}</div>
    ${names.length > 0 && html`<section class="card"><h2>Scatter plots</h2><div class="body"><div class="multiples">${names.map((n) => html`<${Scatter} key=${n} data=${data} space=${space} name=${n} kept=${still} />`)}</div></div></section>`}</div>`, [space, still, chosen, q.across, q.up]);
  if (!data) return html`<${Failed} error=${error} />`;
  if (!data.trials.length) return html`<p class="empty">No trial has begun yet.</p>`;
  return html`<div><${Failed} error=${error} />
    <section class="card"><div class="card-head"><h2>Parallel coordinates</h2><span class="note">${kept.size} of ${data.trials.length} trials</span><${Controls} id=${id} q=${q} set=${set} size=${size} />
      <span class="actions">${Object.keys(brushes).length > 0 && html`<button onClick=${() => setBrushes({})}>Clear ranges</button>`}
      <details class="menu"><summary>Axes</summary><div class="toolbar">${data.names.map((n) => html`<label class="inline" key=${n}><input type="checkbox" checked=${names.includes(n)} onChange=${(e) => show(e.target.checked ? [...names, n] : names.filter((x) => x !== n))} />${n}</label>`)}</div></details></span></div>
      <div class="body"><${Parallel} data=${data} space=${space} names=${axes} brushes=${brushes} setBrushes=${setBrushes} kept=${kept} quiet=${still === kept} /></div>${below}</section>
    ${plots}
  </div>`;
}
