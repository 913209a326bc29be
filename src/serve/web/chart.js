// chart.js - charts: curves by uPlot, the rest on a canvas of our own; each with a table of its values.
import { html, useEffect, useRef, useState, useMemo } from "./preact.js";
import { fmt, bytes } from "./ui.js";

export const palette = ["#0b7a82", "#c2571a", "#4a5fc1", "#a8327e", "#5b8c1f", "#8a5a2b", "#1f7fc4", "#b3261e", "#6f4fb3", "#2e7d5b"];
export const darkPalette = ["#57c2c9", "#f0a06a", "#98a7ff", "#f08cc8", "#a8d666", "#d6ab7a", "#7cc0f5", "#ff9c94", "#bda3f5", "#7ad3ac"];
export const isDark = () => document.documentElement.dataset.theme === "dark";
export const colour = (i) => (isDark() ? darkPalette : palette)[i % palette.length];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// From good (0) to bad (1): dark to light, readable without telling hues apart.
const stops = [[12, 94, 100], [41, 139, 140], [121, 178, 123], [214, 203, 95], [236, 158, 60]];
export function scaleColour(t, alpha = 1) {
  if (!Number.isFinite(t)) return `rgb(128 128 128 / ${alpha})`;
  const x = Math.min(1, Math.max(0, t)) * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(x)), f = x - i;
  const c = stops[i].map((v, k) => Math.round(v + f * (stops[i + 1][k] - v)));
  return `rgb(${c[0]} ${c[1]} ${c[2]} / ${alpha})`;
}

export function useTheme() {
  const [theme, set] = useState(document.documentElement.dataset.theme);
  useEffect(() => {
    const f = () => set(document.documentElement.dataset.theme);
    window.addEventListener("ebb-theme", f);
    return () => window.removeEventListener("ebb-theme", f);
  }, []);
  return theme;
}
function useWidth(ref) {
  const [width, set] = useState(0);
  useEffect(() => {
    const o = new ResizeObserver(() => set(Math.floor(ref.current ? ref.current.clientWidth : 0)));
    o.observe(ref.current);
    return () => o.disconnect();
  }, []);
  return width;
}

export function TableOf({ summary = "Values as a table", columns, rows, limit = 500 }) {
  const [open, set] = useState(false);
  return html`<details class="table" onToggle=${(e) => set(e.currentTarget.open)}><summary>${summary}</summary>
    ${open && html`<div class="scroll" tabindex="0" role="region" aria-label=${summary}><table><thead><tr>${columns.map((c) => html`<th scope="col" key=${c}>${c}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, limit).map((r, i) => html`<tr key=${i}>${r.map((v, k) => html`<td key=${k} class=${typeof v === "number" ? "num" : ""}>${fmt(v)}</td>`)}</tr>`)}</tbody></table>
    ${rows.length > limit && html`<p class="note">The first ${limit} of ${rows.length}.</p>`}</div>`}</details>`;
}

const smooth = (ys, amount) => {
  if (!amount) return ys;
  let last = null;
  return ys.map((y) => {
    if (y === null || !Number.isFinite(y)) return y;
    last = last === null ? y : amount * last + (1 - amount) * y;
    return last;
  });
};

// series: [{label, x: [], y: [], colour, onClick}]; logY, smoothing 0..0.99, xLabel, xTime.
export function Curves({ series, height = 340, logY, smoothing = 0, xLabel, xTime, label, onPick }) {
  const ref = useRef(), plot = useRef(null), picked = useRef(onPick);
  const width = useWidth(ref), theme = useTheme();
  picked.current = onPick;
  const data = useMemo(() => {
    const xs = [...new Set(series.flatMap((s) => s.x))].sort((a, b) => a - b);
    const at = new Map(xs.map((x, i) => [x, i]));
    return [xs, ...series.map((s) => {
      const row = new Array(xs.length).fill(undefined), ys = smooth(s.y, smoothing);
      s.x.forEach((x, i) => { const y = ys[i]; row[at.get(x)] = Number.isFinite(y) && (!logY || y > 0) ? y : null; });
      return row;
    })];
  }, [series, smoothing, logY]);
  const shape = series.map((s) => s.label).join("\n") + "|" + theme + "|" + !!logY + "|" + xLabel + "|" + !!xTime;
  useEffect(() => {
    if (!width || !window.uPlot) return undefined;
    const grid = { stroke: css("--line"), width: 1 }, axis = { stroke: css("--muted"), grid, ticks: grid, font: "12px system-ui", size: 56 };
    const many = series.length > 12;
    plot.current = new window.uPlot({
      width, height, legend: { show: series.length > 1 && series.length <= 40, live: series.length <= 20 },
      cursor: { focus: { prox: 24 }, drag: { x: true, y: true, uni: 20 } },
      focus: { alpha: 0.25 },
      scales: { x: { time: !!xTime }, y: { distr: logY ? 3 : 1 } },
      axes: [{ ...axis, size: 42, label: xLabel, labelSize: 18, labelFont: "12px system-ui" }, { ...axis, values: (u, v) => v.map((x) => (x === null ? "" : fmt(x))) }],
      series: [{ label: xLabel, value: xTime ? undefined : (u, v) => fmt(v) }, ...series.map((s, i) => ({
        label: s.label, stroke: s.colour || colour(i), width: many ? 1.2 : 2, spanGaps: true,
        points: { show: s.x.length < 2 ? true : undefined, size: 5 }, value: (u, v) => fmt(v),
      }))],
    }, data, ref.current);
    const click = () => {
      const i = plot.current && plot.current.series.findIndex((s, k) => k > 0 && s._focus);
      if (i > 0 && picked.current) picked.current(series[i - 1]);
    };
    plot.current.over.addEventListener("click", click);
    return () => { plot.current.destroy(); plot.current = null; };
  }, [shape, width, height]);
  useEffect(() => { if (plot.current) plot.current.setData(data); }, [data]);
  const rows = () => series.flatMap((s) => s.x.map((x, i) => [s.label, xTime ? new Date(1000 * x).toISOString() : x, s.y[i]]));
  return html`<div><div class="chart" ref=${ref} role="img" aria-label=${label || "curves"} data-points=${data[0].length} data-series=${series.length} data-latest=${data[0].length ? data[0][data[0].length - 1] : ""}></div>
    ${!series.length && html`<p class="empty">Nothing to draw yet.</p>`}
    <${TableOf} columns=${["series", xLabel, "value"]} rows=${series.length ? rows() : []} /></div>`;
}

// A canvas that draws itself again when its size or theme changes: draw(context, width, height).
export function Canvas({ draw, height, label, deps, ...more }) {
  const box = useRef(), canvas = useRef();
  const width = useWidth(box), theme = useTheme();
  useEffect(() => {
    if (!width) return;
    const c = canvas.current, ratio = window.devicePixelRatio || 1;
    c.width = width * ratio;
    c.height = height * ratio;
    c.style.width = width + "px";
    c.style.height = height + "px";
    const g = c.getContext("2d");
    g.scale(ratio, ratio);
    g.font = "12px system-ui, sans-serif";
    draw(g, width, height, { text: css("--text"), muted: css("--muted"), line: css("--line"), accent: css("--accent"), surface: css("--surface") });
  }, [width, height, theme, ...deps]);
  return html`<div class="chart" ref=${box}><canvas ref=${canvas} role="img" aria-label=${label} ...${more}></canvas></div>`;
}

// The ends of most values: a trial that ran away must not flatten all others. What lies beyond is drawn at the edge.
export function ends(good) {
  const s = [...good].sort((a, b) => a - b), at = (p) => s[Math.min(s.length - 1, Math.floor(p * s.length))];
  const a = at(0.05), b = at(0.9), room = 3 * (b - a);
  return s.length < 8 || !(b > a) ? [s[0], s[s.length - 1]] : [Math.max(s[0], a - room), Math.min(s[s.length - 1], b + room)];
}

// Numbers of a column onto 0..1; texts in their order.
export function axisOf(values, isMetric) {
  const known = values.filter((v) => v !== null && v !== undefined);
  const isText = known.some((v) => typeof v !== "number");
  if (isText) {
    const names = [...new Set(known.map((v) => (typeof v === "string" ? v : JSON.stringify(v))))].sort();
    const index = new Map(names.map((n, i) => [n, i]));
    return { isText, names, low: 0, high: Math.max(1, names.length - 1), place: (v) => (v === null || v === undefined ? NaN : index.get(typeof v === "string" ? v : JSON.stringify(v)) / Math.max(1, names.length - 1)), ticks: names.length > 8 ? [0, names.length - 1] : names.map((_, i) => i), name: (i) => names[i] };
  }
  const good = known.filter(Number.isFinite);
  let low = 0, high = 1;
  if (good.length && isMetric) [low, high] = ends(good);
  else if (good.length) { low = good.reduce((a, b) => Math.min(a, b)); high = good.reduce((a, b) => Math.max(a, b)); }
  const useLog = low > 0 && high / low > 100;
  if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
  const f = useLog ? Math.log : (x) => x, a = f(low), b = f(high);
  return { isText, useLog, low, high, place: (v) => (v === null || v === undefined || !Number.isFinite(v) ? NaN : Math.min(1, Math.max(0, (f(useLog && v <= 0 ? low : v) - a) / (b - a)))), back: (t) => (useLog ? Math.exp(a + t * (b - a)) : a + t * (b - a)) };
}

// ---- bytes over a training step ----

export const kinds = ["weights", "optimizer", "inputs", "activations", "gradients", "workspace"];
// rows: [op, bytes of each kind]; peak: bytes by kind; marks: [name, bytes] drawn across.
export function Timeline({ rows, peak, marks }) {
  const most = Math.max(...rows.map((r) => r.slice(1).reduce((a, b) => a + b, 0)), ...marks.map(([, v]) => v)), ops = rows.length ? rows[rows.length - 1][0] + 1 : 0;
  const draw = (g, w, h, c) => {
    const left = 70, bottom = 24, W = w - left - 12, H = h - bottom - 10, x = (i) => left + (rows.length > 1 ? (i * W) / (rows.length - 1) : 0), y = (v) => 10 + H * (1 - v / (most * 1.04));
    const base = new Array(rows.length).fill(0);
    kinds.forEach((_, k) => {
      g.fillStyle = colour(k);
      g.beginPath();
      rows.forEach((r, i) => g.lineTo(x(i), y(base[i])));
      for (let i = rows.length - 1; i >= 0; i--) { base[i] += rows[i][1 + k]; g.lineTo(x(i), y(base[i])); }
      g.closePath();
      g.fill();
    });
    marks.forEach(([name, v]) => {
      const text = name + " " + bytes(v), tw = g.measureText(text).width;
      g.strokeStyle = c.text;
      g.setLineDash([5, 4]);
      g.beginPath();
      g.moveTo(left, y(v));
      g.lineTo(left + W, y(v));
      g.stroke();
      g.setLineDash([]);
      g.fillStyle = c.surface;
      g.fillRect(left + W - tw - 10, y(v) - 19, tw + 8, 16);
      g.fillStyle = c.text;
      g.textAlign = "right";
      g.fillText(text, left + W - 6, y(v) - 7);
    });
    g.fillStyle = c.muted;
    g.textAlign = "right";
    [0, 0.25, 0.5, 0.75, 1].forEach((f) => g.fillText(bytes(Math.round(most * f)), left - 6, y(most * f) + 4));
    g.textAlign = "left";
    g.fillText("forward, backward, update: " + ops + " ops", left, h - 6);
  };
  return html`<div><${Canvas} height=${280} draw=${draw} deps=${[rows, JSON.stringify(marks)]} label=${`bytes over the ${ops} ops of a step; most: ${bytes(most)}; ${marks.map(([n, v]) => n + " " + bytes(v)).join(", ")}`} />
    <div class="legend">${kinds.map((k, i) => html`<span key=${k}><i style=${{ background: colour(i) }}></i>${k} ${bytes(peak[k])}</span>`)}</div>
    <${TableOf} columns=${["op", ...kinds]} rows=${rows} /></div>`;
}
