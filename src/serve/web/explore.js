// explore.js - all trials of an experiment at once: parallel coordinates with brushes, scatter plots, heat map, importance.
import { html, useState, useMemo, useRef, useEffect } from "./preact.js";
import { useData, link, fmt, short, num, Failed } from "./ui.js";
import * as api from "./api.js";
import { Canvas, TableOf, axisOf, scaleColour } from "./chart.js";

const M = { top: 34, bottom: 26, side: 60 };

function useColour(trials, smaller) {
  return useMemo(() => {
    const values = trials.map((t) => num(t.value)).filter(Number.isFinite).sort((a, b) => a - b);
    // by rank: an outlier must not take all colours away
    const rank = (v) => { let lo = 0, hi = values.length; while (lo < hi) { const m = (lo + hi) >> 1; if (values[m] < v) lo = m + 1; else hi = m; } return values.length > 1 ? lo / (values.length - 1) : 0; };
    const part = (v) => { const x = num(v); return Number.isFinite(x) ? (smaller ? rank(x) : 1 - rank(x)) : NaN; };
    const colourOf = (v, alpha) => scaleColour(part(v), alpha);
    colourOf.shade = (v, shades) => { const t = part(v); return Number.isNaN(t) ? -1 : Math.round(t * (shades - 1)); };
    return colourOf;
  }, [trials, smaller]);
}

// Axes: hyperparameters and the metric. Drag on an axis: only trials in that range stay; the same by numbers below.
const MANY = 400, WHILE_DRAGGING = 1200, SHADES = 24;
function Parallel({ data, names, brushes, setBrushes, kept, quiet }) {
  const colourOf = useColour(data.trials, data.smaller_is_better);
  const axes = useMemo(() => names.map((n) => {
    const k = data.names.indexOf(n);
    const of = n === data.metric && k < 0 ? (t) => num(t.value) : (t) => t.hparams[k];
    return { name: n, of, ...axisOf(data.trials.map(of), n === data.metric && k < 0) };
  }), [data, names]);
  const drag = useRef(null), size = useRef([0, 0]);
  const x = (i, w) => M.side + (axes.length > 1 ? (i * (w - 2 * M.side)) / (axes.length - 1) : (w - 2 * M.side) / 2);
  const y = (t, h) => h - M.bottom - t * (h - M.top - M.bottom);
  const draw = (g, w, h, c) => {
    size.current = [w, h];
    const line = (t) => {
      let pen = false;
      axes.forEach((a, i) => {
        const p = a.place(a.of(t));
        if (Number.isNaN(p)) { pen = false; return; }
        if (pen) g.lineTo(x(i, w), y(p, h));
        else g.moveTo(x(i, w), y(p, h));
        pen = true;
      });
    };
    // Lines of one shade are one path: a thousand strokes would take a thousand times as long.
    const shades = new Map(), many = data.trials.length > MANY, step = many && !quiet ? Math.max(1, Math.floor(kept.size / WHILE_DRAGGING)) : 1;
    let n = 0;
    if (Object.keys(brushes).length > 0 && !many) { g.strokeStyle = c.line; g.lineWidth = 1; g.beginPath(); data.trials.forEach((t) => { if (!kept.has(t.id)) line(t); }); g.stroke(); }
    data.trials.forEach((t) => {
      if (!kept.has(t.id) || n++ % step !== 0) return;
      const shade = colourOf.shade(t.value, SHADES);
      if (!shades.has(shade)) shades.set(shade, []);
      shades.get(shade).push(t);
    });
    g.lineWidth = many ? 0.8 : 1.6;
    [...shades].sort(([p], [q]) => q - p).forEach(([shade, list]) => { g.strokeStyle = shade < 0 ? scaleColour(NaN, 0.4) : scaleColour(shade / (SHADES - 1), many ? 0.35 : 0.8); g.beginPath(); list.forEach(line); g.stroke(); });
    g.textAlign = "center";
    axes.forEach((a, i) => {
      g.strokeStyle = c.muted;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(x(i, w), y(0, h));
      g.lineTo(x(i, w), y(1, h));
      g.stroke();
      g.fillStyle = c.text;
      g.font = "600 12px system-ui, sans-serif";
      g.fillText(a.name.length > 22 ? a.name.slice(0, 21) + "…" : a.name, x(i, w), 14);
      g.font = "11px system-ui, sans-serif";
      g.fillStyle = c.muted;
      const ends = a.isText ? [a.names[0], a.names[a.names.length - 1]] : [short(a.low), short(a.high)];
      g.fillText(ends[1] || "", x(i, w), M.top - 6);
      g.fillText(ends[0] || "", x(i, w), h - 8);
      const b = brushes[a.name];
      if (b) {
        g.fillStyle = c.accent;
        g.globalAlpha = 0.25;
        g.fillRect(x(i, w) - 9, y(b[1], h), 18, Math.max(3, y(b[0], h) - y(b[1], h)));
        g.globalAlpha = 1;
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
  const bound = (a, k, text) => {
    const v = text === "" ? null : Number(text), b = brushes[a.name] || [0, 1], p = v === null ? k : a.place(v);
    if (Number.isNaN(p)) return;
    const n = [...b];
    n[k] = Math.min(1, Math.max(0, p));
    const { [a.name]: gone, ...rest } = brushes;
    setBrushes(n[0] <= 0 && n[1] >= 1 ? rest : { ...rest, [a.name]: n });
  };
  return html`<div>
    <div class="scroll" tabindex="0" role="region" aria-label="parallel coordinates"><div style=${{ minWidth: Math.max(300, axes.length * 90) + "px" }}>
      <${Canvas} height=${360} draw=${draw} deps=${[axes, brushes, kept, colourOf, quiet]} label=${`parallel coordinates of ${data.trials.length} trials over ${names.join(", ")}; ${kept.size} are in the chosen ranges`} onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} style=${{ touchAction: "none", cursor: "crosshair" }} /></div></div>
    <details><summary>Ranges by numbers</summary><div class="toolbar">${axes.filter((a) => !a.isText).map((a) => html`<fieldset key=${a.name} style=${{ border: 0, padding: 0, margin: 0 }}><legend class="note">${a.name}</legend>
      <input type="number" step="any" style=${{ width: "8em" }} aria-label=${"least " + a.name} placeholder=${fmt(a.low)} value=${brushes[a.name] ? Number(a.back(brushes[a.name][0]).toPrecision(6)) : ""} onChange=${(e) => bound(a, 0, e.target.value)} />
      <input type="number" step="any" style=${{ width: "8em" }} aria-label=${"greatest " + a.name} placeholder=${fmt(a.high)} value=${brushes[a.name] ? Number(a.back(brushes[a.name][1]).toPrecision(6)) : ""} onChange=${(e) => bound(a, 1, e.target.value)} /></fieldset>`)}</div></details>
  </div>`;
}

function Scatter({ data, name, kept }) {
  const k = data.names.indexOf(name), colourOf = useColour(data.trials, data.smaller_is_better);
  const [points, ax, ay] = useMemo(() => {
    const list = data.trials.filter((t) => kept.has(t.id) && Number.isFinite(num(t.value)) && t.hparams[k] !== null);
    return [list, axisOf(list.map((t) => t.hparams[k])), axisOf(list.map((t) => num(t.value)), true)];
  }, [data, kept, k]);
  const draw = (g, w, h, c) => {
    g.strokeStyle = c.line;
    g.strokeRect(54.5, 6.5, w - 62, h - 30);
    points.forEach((t) => {
      const px = 60 + ax.place(t.hparams[k]) * (w - 74), py = h - 30 - ay.place(num(t.value)) * (h - 44);
      g.fillStyle = colourOf(t.value, 0.75);
      if (points.length > MANY) { g.fillRect(px - 1, py - 1, 2, 2); return; }
      g.beginPath();
      g.arc(px, py, 3.5, 0, 7);
      g.fill();
    });
    g.fillStyle = c.muted;
    g.font = "11px system-ui, sans-serif";
    g.textAlign = "right";
    g.fillText(short(ay.high), 50, 14);
    g.fillText(short(ay.low), 50, h - 26);
    g.fillText(ax.isText ? ax.names[ax.names.length - 1] || "" : short(ax.high), w - 8, h - 8);
    g.textAlign = "left";
    g.fillText(ax.isText ? ax.names[0] || "" : short(ax.low), 54, h - 8);
  };
  return html`<figure><figcaption>${data.metric} against <strong>${name}</strong>${ax.useLog ? " (log)" : ""}</figcaption>
    <${Canvas} height=${190} draw=${draw} deps=${[points, colourOf]} label=${`${data.metric} against ${name}, ${points.length} trials`} /></figure>`;
}

// Pairs of hyperparameters: the mean metric of the trials in each cell.
function Heat({ data, names, kept }) {
  const [a, setA] = useState(names[0]), [b, setB] = useState(names[1] || names[0]);
  const ka = data.names.indexOf(a), kb = data.names.indexOf(b), N = 10;
  const cells = useMemo(() => {
    const trials = data.trials.filter((t) => kept.has(t.id) && Number.isFinite(num(t.value)));
    const ax = axisOf(trials.map((t) => t.hparams[ka])), ay = axisOf(trials.map((t) => t.hparams[kb]));
    const nx = ax.isText ? ax.names.length : N, ny = ay.isText ? ay.names.length : N, sum = new Map();
    trials.forEach((t) => {
      const p = ax.place(t.hparams[ka]), q = ay.place(t.hparams[kb]);
      if (Number.isNaN(p) || Number.isNaN(q)) return;
      const i = Math.min(nx - 1, Math.floor(p * nx)), j = Math.min(ny - 1, Math.floor(q * ny)), s = sum.get(j * nx + i) || [0, 0];
      sum.set(j * nx + i, [s[0] + num(t.value), s[1] + 1]);
    });
    const means = [...sum.values()].map(([s, n]) => s / n).sort((x, y) => x - y);
    return { ax, ay, nx, ny, sum, rank: (v) => (means.length > 1 ? means.indexOf(v) / (means.length - 1) : 0) };
  }, [data, ka, kb, kept]);
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
    g.fillText(cells.ay.isText ? cells.ay.names[cells.ny - 1] || "" : short(cells.ay.high), 64, 16);
    g.fillText(cells.ay.isText ? cells.ay.names[0] || "" : short(cells.ay.low), 64, h - 32);
    g.fillText(cells.ax.isText ? cells.ax.names[cells.nx - 1] || "" : short(cells.ax.high), w - 10, h - 12);
    g.textAlign = "left";
    g.fillText(cells.ax.isText ? cells.ax.names[0] || "" : short(cells.ax.low), 70, h - 12);
  };
  const pick = (value, f, label) => html`<label class="inline">${label} <select value=${value} onChange=${(e) => f(e.target.value)}>${names.map((n) => html`<option key=${n} value=${n}>${n}</option>`)}</select></label>`;
  return html`<div><div class="toolbar">${pick(a, setA, "across")}${pick(b, setB, "up")}</div>
    <${Canvas} height=${300} draw=${draw} deps=${[cells]} label=${`mean ${data.metric} over ${a} and ${b}`} />
    <${TableOf} columns=${[a, b, "mean " + data.metric, "trials"]} rows=${[...cells.sum].map(([key, [s, n]]) => [range(cells.ax, cells.nx, key % cells.nx), range(cells.ay, cells.ny, Math.floor(key / cells.nx)), s / n, n])} /></div>`;
}

function Importance({ id, metric }) {
  const { data, error } = useData(`/experiments/${id}/importance` + api.query({ metric }), (e) => e.experiment_id === id && e.type === "validation");
  const rows = data ? [...data.importance].sort((a, b) => b.importance - a.importance) : [];
  return html`<section class="card"><h2>What matters</h2><div class="body"><${Failed} error=${error} />
    ${rows.length ? html`<dl class="hbars">${rows.map((r) => html`<dt key=${"t" + r.name}>${r.name}</dt><dd key=${"b" + r.name}><${"span"} class="bar"><span style=${{ width: (100 * r.importance).toFixed(1) + "%" }}></span><//></dd><dd key=${"v" + r.name} class="mono">${(100 * r.importance).toFixed(0)} %</dd>`)}</dl>
      <p class="note">Of the variance of ${data.metric} that a random forest over ${data.trials} trials explains.</p>` : html`<p class="note">No hyperparameter varies yet.</p>`}</div></section>`;
}

export function Explore({ id, metric }) {
  const { data, error } = useData(`/experiments/${id}/points` + api.query({ metric }), (e) => e.experiment_id === id && e.type !== "log" && e.type !== "step");
  const [brushes, setBrushes] = useState({}), [shown, show] = useState(null);
  const names = data ? shown || data.varying : [];
  const axes = useMemo(() => (data ? [...names.filter((n) => data.names.includes(n)), data.metric] : []), [data, shown]);
  const places = useRef(new Map()); // of every trial on an axis, made when it is first brushed
  useEffect(() => { places.current = new Map(); }, [data]);
  const placesOf = (name) => {
    if (!places.current.has(name)) {
      const k = data.names.indexOf(name), of = k < 0 ? (t) => num(t.value) : (t) => t.hparams[k], axis = axisOf(data.trials.map(of), k < 0);
      places.current.set(name, data.trials.map((t) => axis.place(of(t))));
    }
    return places.current.get(name);
  };
  const kept = useMemo(() => {
    if (!data) return new Set();
    const tests = Object.entries(brushes).map(([name, [lo, hi]]) => { const at = placesOf(name); return (i) => at[i] >= lo - 1e-9 && at[i] <= hi + 1e-9; });
    return new Set(data.trials.filter((t, i) => tests.every((f) => f(i))).map((t) => t.id));
  }, [data, brushes]);
  // What is dear to draw follows when the hand rests.
  const [settled, settle] = useState(kept);
  useEffect(() => { const t = setTimeout(() => settle(kept), data && data.trials.length > MANY ? 150 : 0); return () => clearTimeout(t); }, [kept]);
  if (!data) return html`<${Failed} error=${error} />`;
  if (!data.trials.length) return html`<p class="empty">No trial has begun yet.</p>`;
  const order = data.trials.filter((t) => settled.has(t.id)).sort((a, b) => { const x = num(a.value), y = num(b.value); return !Number.isFinite(x) ? 1 : !Number.isFinite(y) ? -1 : data.smaller_is_better ? x - y : y - x; });
  return html`<div>
    <section class="card"><div class="card-head"><h2>Parallel coordinates</h2><span class="note">${kept.size} of ${data.trials.length} trials</span>
      <span class="actions">${Object.keys(brushes).length > 0 && html`<button onClick=${() => setBrushes({})}>Clear ranges</button>`}
      <details><summary>Axes</summary><div class="toolbar">${data.names.map((n) => html`<label class="inline" key=${n}><input type="checkbox" checked=${names.includes(n)} onChange=${(e) => show(e.target.checked ? [...names, n] : names.filter((x) => x !== n))} />${n}</label>`)}</div></details></span></div>
      <div class="body"><${Parallel} data=${data} names=${axes} brushes=${brushes} setBrushes=${setBrushes} kept=${kept} quiet=${settled === kept} /></div>
      <div class="scroll" style=${{ maxHeight: "320px", overflowY: "auto" }} tabindex="0" role="region" aria-label="trials in the chosen ranges"><table><caption class="visually-hidden">Trials in the chosen ranges</caption><thead><tr><th scope="col" class="num">Trial</th><th scope="col">State</th><th scope="col" class="num">${data.metric}</th>${names.map((n) => html`<th scope="col" key=${n} class="num">${n}</th>`)}</tr></thead>
      <tbody>${order.slice(0, 100).map((t) => html`<tr key=${t.id}><td class="num"><a href=${link("/trials/" + t.id)}>${t.id}</a></td><td>${t.state.toLowerCase()}</td><td class="num">${fmt(num(t.value))}</td>${names.map((n) => html`<td key=${n} class="num">${fmt(t.hparams[data.names.indexOf(n)])}</td>`)}</tr>`)}</tbody></table></div>
      ${order.length > 100 && html`<p class="pager">The best 100 of ${order.length}.</p>`}</section>
    <div class="grid"><${Importance} id=${id} metric=${metric} />
      ${data.varying.length > 1 && html`<section class="card"><h2>Heat map</h2><div class="body"><${Heat} data=${data} names=${data.varying} kept=${settled} /></div></section>`}</div>
    ${data.varying.length > 0 && html`<section class="card"><h2>Scatter plots</h2><div class="body"><div class="multiples">${names.filter((n) => data.names.includes(n)).map((n) => html`<${Scatter} key=${n} data=${data} name=${n} kept=${settled} />`)}</div></div></section>`}
  </div>`;
}
