// chart.js - charts: curves by uPlot, the rest on a canvas of our own; each with a table of its values.
import { html, useEffect, useRef, useState, useMemo } from "./preact.js";
import { fmt, short, bytes } from "./ui.js";
import { raster } from "./raster.js";

export const palette = ["#0b7a82", "#c2571a", "#4a5fc1", "#a8327e", "#5b8c1f", "#8a5a2b", "#1f7fc4", "#b3261e", "#6f4fb3", "#2e7d5b"];
export const darkPalette = ["#57c2c9", "#f0a06a", "#98a7ff", "#f08cc8", "#a8d666", "#d6ab7a", "#7cc0f5", "#ff9c94", "#bda3f5", "#7ad3ac"];
export const isDark = () => document.documentElement.dataset.theme === "dark";
export const colour = (i) => (isDark() ? darkPalette : palette)[i % palette.length];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// From good (0) to bad (1): from what stands out to what does not, readable without telling hues apart.
const lightStops = [[12, 94, 100], [41, 139, 140], [121, 178, 123], [214, 203, 95], [236, 158, 60]];
const darkStops = [[132, 236, 230], [66, 184, 172], [78, 138, 104], [118, 110, 58], [124, 78, 44]];
export function scaleRgb(t) {
  if (!Number.isFinite(t)) return [128, 128, 128];
  const stops = isDark() ? darkStops : lightStops;
  const x = Math.min(1, Math.max(0, t)) * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(x)), f = x - i;
  return stops[i].map((v, k) => Math.round(v + f * (stops[i + 1][k] - v)));
}
export const scaleColour = (t, alpha = 1) => `rgb(${scaleRgb(t).join(" ")} / ${alpha})`;

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

// rows: a list, or what makes it when it is looked at.
export function TableOf({ summary = "Values as a table", columns, rows: made, limit = 500 }) {
  const [open, set] = useState(false), rows = !open ? [] : typeof made === "function" ? made() : made;
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

const tableRows = (series, xTime) => series.flatMap((s) => s.x.map((x, i) => [s.label, xTime ? new Date(1000 * x).toISOString() : x, s.y[i]]));

const WHOLE = Array.from({ length: 13 }, (_, i) => [1, 2, 5].map((f) => f * 10 ** i)).flat(); // there are no halves of a batch

// series: [{label, x: [], y: [], colour}], the best first; logY, smoothing 0..0.99, xLabel, xTime; stairs: a value holds until the next.
const CROWD = 150;
export const Curves = (props) => (props.series.length > CROWD ? html`<${Crowd} ...${props} />` : html`<${Few} ...${props} />`);

// The range that most values lie in, with some room: one curve that ran away must not flatten the others.
function rangeOf(series, logY) {
  const good = series.flatMap((s) => s.y.filter((y) => Number.isFinite(y) && (!logY || y > 0)));
  if (logY || good.length < 8) return null;
  let [low, high] = ends(good);
  const least = good.reduce((a, b) => Math.min(a, b)), most = good.reduce((a, b) => Math.max(a, b));
  const span = high - low;
  if (most < high + span / 2) high = most; // what is little further away has room, too
  if (least > low - span / 2) low = least;
  const room = 0.05 * (high - low) || 1, isCut = least < low || most > high;
  return isCut ? { low: least < low ? low : low - room, high: most > high ? high : high + room, least, most } : null;
}

function Few({ series, height = 340, logY, smoothing = 0, xLabel, xTime, label, onPick, stairs }) {
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
  const cut = useMemo(() => rangeOf(series, logY), [series, logY]), range = useRef(cut);
  range.current = cut;
  const shape = series.map((s) => s.label).join("\n") + "|" + theme + "|" + !!logY + "|" + xLabel + "|" + !!xTime;
  useEffect(() => {
    if (!width || !window.uPlot || !series.length) return undefined;
    const grid = { stroke: css("--line"), width: 1 }, axis = { stroke: css("--muted"), grid, ticks: grid, font: "12px system-ui", size: 56 };
    const many = series.length > 12;
    plot.current = new window.uPlot({
      width, height, legend: { show: series.length > 1 && series.length <= 40, live: series.length <= 20 },
      cursor: { focus: { prox: 24 }, drag: { x: true, y: true, uni: 20 } },
      focus: { alpha: 0.25 },
      scales: { x: { time: !!xTime }, y: { distr: logY ? 3 : 1, ...(logY ? {} : { range: (u, low, high) => (range.current ? [range.current.low, range.current.high] : window.uPlot.rangeNum(low, high, 0.1, true)) }) } },
      axes: [{ ...axis, size: 42, label: xLabel, labelSize: 18, labelFont: "12px system-ui", ...(xLabel === "batches" ? { incrs: WHOLE } : {}) }, { ...axis, values: (u, v) => v.map((x) => (x === null ? "" : fmt(x))) }],
      series: [{ label: xLabel, value: xTime ? undefined : (u, v) => (v === null || v === undefined ? "" : fmt(v)) }, ...series.map((s, i) => ({
        label: s.label, stroke: s.colour || colour(i), width: many ? 1.2 : 2, spanGaps: true, ...(stairs ? { paths: window.uPlot.paths.stepped({ align: 1 }) } : {}),
        points: { show: s.x.length < 2 ? true : undefined, size: s.x.length < 2 ? 9 : 5, fill: s.colour || colour(i) }, value: (u, v) => (v === null || v === undefined ? "" : fmt(v)),
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
  return html`<div><div class="chart" ref=${ref} role="img" aria-label=${label || "curves"} data-points=${data[0].length} data-series=${series.length} data-latest=${data[0].length ? data[0][data[0].length - 1] : ""}></div>
    ${!series.length && html`<p class="empty">There are no values to draw.</p>`}
    ${cut && html`<p class="note">Values go from ${fmt(cut.least)} to ${fmt(cut.most)}; what lies far from most of them is cut off. A log scale has room for all.</p>`}
    <${TableOf} columns=${["series", xLabel, "value"]} rows=${() => tableRows(series, xTime)} /></div>`;
}

// ---- thousands of curves ----

const L = { left: 64, right: 14, top: 10, bottom: 40 };
// Round numbers between two ends.
function ticks(low, high, most) {
  const raw = (high - low) / most, size = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((f) => f * size).find((f) => f >= raw), list = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) list.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return list;
}
function crowdOf(series, logY, smoothing) {
  const f = logY ? Math.log10 : (v) => v, good = [];
  let low = Infinity, high = -Infinity;
  const lines = series.map((s) => {
    const y = smooth(s.y, smoothing).map((v) => (Number.isFinite(v) && (!logY || v > 0) ? f(v) : NaN));
    s.x.forEach((v, i) => { if (!Number.isNaN(y[i])) { low = Math.min(low, v); high = Math.max(high, v); good.push(y[i]); } });
    return { x: s.x, y };
  });
  const [bottom, top] = good.length ? ends(good) : [0, 1];
  return { lines, x: [low, high > low ? high : low + 1], y: [bottom, top > bottom ? top : bottom + 1], points: good.length };
}

// All of them as pixels, by rank; the one next to the pointer stands out and tells its name, a click opens it.
function Crowd({ series, height = 340, logY, smoothing = 0, xLabel, xTime, label, onPick }) {
  const crowd = useMemo(() => crowdOf(series, logY, smoothing), [series, logY, smoothing]), over = useRef(), size = useRef([0, 0, 1]), [tip, point] = useState(null);
  const px = (v, w) => L.left + ((v - crowd.x[0]) / (crowd.x[1] - crowd.x[0])) * (w - L.left - L.right);
  const py = (v, h) => h - L.bottom - Math.min(1, Math.max(0, (v - crowd.y[0]) / (crowd.y[1] - crowd.y[0]))) * (h - L.top - L.bottom);
  const draw = (g, w, h, c) => {
    size.current = [w, h, c.ratio];
    const r = raster(g, c.surface), n = crowd.lines.length;
    for (let k = n - 1; k >= 0; k--) {
      const { x, y } = crowd.lines[k];
      r.pen(scaleRgb(k / Math.max(1, n - 1)), n > 3000 ? 0.3 : 0.5);
      for (let i = 0, last = -1; i < x.length; i++) {
        if (Number.isNaN(y[i])) continue;
        if (last >= 0) r.line(c.ratio * px(x[last], w), c.ratio * py(y[last], h), c.ratio * px(x[i], w), c.ratio * py(y[i], h));
        last = i;
      }
    }
    r.put();
    g.fillStyle = c.muted;
    g.strokeStyle = c.line;
    g.textAlign = "right";
    const mark = (v) => (logY ? short(10 ** v) : short(v));
    ticks(crowd.y[0], crowd.y[1], 5).forEach((v) => { g.fillText(mark(v), L.left - 8, py(v, h) + 4); g.fillRect(L.left - 4, py(v, h), 4, 1); });
    ticks(crowd.x[0], crowd.x[1], Math.max(2, w / 150)).forEach((v) => {
      const text = xTime ? new Date(1000 * v).toLocaleTimeString([], { hour12: false }) : v.toLocaleString();
      g.textAlign = px(v, w) + g.measureText(text).width / 2 > w ? "right" : "center";
      g.fillText(text, Math.min(w, px(v, w)), h - L.bottom + 16);
    });
    g.textAlign = "center";
    g.fillText(xLabel, L.left + (w - L.left - L.right) / 2, h - 5);
    g.strokeRect(L.left + 0.5, L.top + 0.5, w - L.left - L.right, h - L.top - L.bottom);
  };
  const nearest = (e) => { // by the height of each line below the pointer
    const b = e.currentTarget.getBoundingClientRect(), [w, h] = size.current, my = e.clientY - b.top;
    const vx = crowd.x[0] + ((e.clientX - b.left - L.left) / (w - L.left - L.right)) * (crowd.x[1] - crowd.x[0]);
    let best = null, least = 24;
    crowd.lines.forEach(({ x, y }, k) => {
      let i = 0;
      while (i + 1 < x.length && x[i + 1] < vx) i++;
      const j = Math.min(i + 1, x.length - 1), part = x[j] > x[i] ? Math.min(1, Math.max(0, (vx - x[i]) / (x[j] - x[i]))) : 0;
      const d = Math.abs(py(y[i] + part * (y[j] - y[i]), h) - my);
      if (d < least) { least = d; best = { k, i: part > 0.5 ? j : i }; }
    });
    return best;
  };
  const show = (found) => {
    const [w, h, ratio] = size.current, c = over.current, g = c.getContext("2d");
    c.width = w * ratio;
    c.height = h * ratio;
    if (!found) { point(null); return; }
    const { x, y } = crowd.lines[found.k];
    g.scale(ratio, ratio);
    [[4, css("--surface")], [2, css("--text")]].forEach(([width, stroke]) => {
      g.lineWidth = width;
      g.strokeStyle = stroke;
      g.beginPath();
      x.forEach((v, i) => { if (!Number.isNaN(y[i])) g.lineTo(px(v, w), py(y[i], h)); });
      g.stroke();
    });
    point({ x: px(x[found.i], w), y: py(y[found.i], h), text: `${series[found.k].label}: ${fmt(series[found.k].y[found.i])}` });
  };
  const latest = crowd.points ? crowd.x[1] : "";
  return html`<div><div class="chart" style=${{ position: "relative" }} data-points=${crowd.points} data-series=${series.length} data-latest=${latest}>
      <${Canvas} height=${height} draw=${draw} deps=${[crowd, xLabel]} label=${label || "curves"} onPointerMove=${(e) => show(nearest(e))} onPointerLeave=${() => show(null)} onClick=${(e) => { const found = nearest(e); if (found && onPick) onPick(series[found.k]); }} style=${{ cursor: tip ? "pointer" : "crosshair" }} />
      <canvas ref=${over} aria-hidden="true" style=${{ position: "absolute", inset: 0, width: "100%", height: height + "px", pointerEvents: "none" }}></canvas>
      ${tip && html`<div class="tip" style=${{ left: tip.x + "px", top: tip.y + "px" }}>${tip.text}</div>`}</div>
    <${TableOf} columns=${["series", xLabel, "value"]} rows=${() => tableRows(series, xTime)} /></div>`;
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
    draw(g, width, height, { text: css("--text"), muted: css("--muted"), line: css("--line"), accent: css("--accent"), surface: css("--surface"), ratio });
  }, [width, height, theme, ...deps]);
  return html`<div class="chart" ref=${box} style=${{ minHeight: height + "px" }}><canvas ref=${canvas} role="img" aria-label=${label} ...${more}></canvas></div>`;
}

// The ends of most values: a trial that ran away must not flatten all others. What lies beyond is drawn at the edge.
export function ends(good) {
  const s = Float64Array.from(good).sort(), at = (p) => s[Math.min(s.length - 1, Math.floor(p * s.length))];
  const a = at(0.05), b = at(0.9), room = 3 * (b - a);
  return s.length < 8 || !(b > a) ? [s[0], s[s.length - 1]] : [Math.max(s[0], a - room), Math.min(s[s.length - 1], b + room)];
}

// Numbers of a column onto 0..1; texts in their order. isLog: how they were drawn; unknown: by how far apart they lie.
export function axisOf(values, isMetric, isLog) {
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
  const useLog = low > 0 && (isLog === undefined ? high / low > 100 : isLog);
  if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
  const f = useLog ? Math.log : (x) => x, a = f(low), b = f(high);
  return { isText, useLog, low, high, place: (v) => (v === null || v === undefined || !Number.isFinite(v) ? NaN : Math.min(1, Math.max(0, (f(useLog && v <= 0 ? low : v) - a) / (b - a)))), back: (t) => (useLog ? Math.exp(a + t * (b - a)) : a + t * (b - a)) };
}

// ---- bytes over a training step ----

export const kinds = ["weights", "optimizer", "inputs", "activations", "gradients", "workspace"];
const tiers = [["host", 6], ["file", 8]]; // names of columns, and their colours
const copies = [["to_host", "to host"], ["from_host", "from host"], ["to_file", "to file"], ["from_file", "from file"]];
const B = { left: 76, right: 12, top: 10, bottom: 24 };

// rows: [op, bytes of each kind, ...]; columns: the names of what follows where lower tiers are used; peak: bytes by kind; marks: [name, bytes] drawn
// across; what: what the rows are. The device lies above the line, host and file below it. The pointer tells what there is at its op.
export function Timeline({ rows, columns, peak, marks, what }) {
  const [at, point] = useState(null), width = useRef(0), theme = useTheme();
  const column = (name) => (columns || []).indexOf(name), value = (r, name) => (column(name) < 0 ? 0 : r[column(name)]);
  const held = (r) => kinds.reduce((s, _, k) => s + r[1 + k], 0), away = (r) => tiers.reduce((s, [n]) => s + value(r, n), 0);
  const most = Math.max(1, ...rows.map(held), ...marks.map(([, v]) => v)), deep = Math.max(0, ...rows.map(away)), ops = rows.length ? rows[rows.length - 1][0] + 1 : 0;
  const height = deep ? 380 : 280, span = height - B.top - B.bottom, part = deep ? Math.min(0.6, Math.max(0.2, deep / (deep + most))) : 0, zero = B.top + span * (1 - part);
  const up = (v) => zero - (v * (zero - B.top)) / (most * 1.04), down = (v) => zero + (v * span * part) / (deep * 1.04);
  const x = (i, w) => B.left + (rows.length > 1 ? (i * (w - B.left - B.right)) / (rows.length - 1) : 0);
  const area = (g, w, y, base, c, of) => {
    g.fillStyle = colour(c);
    g.beginPath();
    rows.forEach((r, i) => g.lineTo(x(i, w), y(base[i])));
    for (let i = rows.length - 1; i >= 0; i--) { base[i] += of(rows[i]); g.lineTo(x(i, w), y(base[i])); }
    g.closePath();
    g.fill();
  };
  const mark = (g, w, c, [name, v], i) => { // each label in a place of its own: two may lie at nearly the same height
    const text = name + " " + bytes(v), tw = g.measureText(text).width, right = Math.max(B.left + tw + 12, w - B.right - 150 * i), high = up(v) < B.top + 18 ? 16 : -7;
    g.strokeStyle = c.text;
    g.setLineDash([5, 4]);
    g.beginPath();
    g.moveTo(B.left, up(v));
    g.lineTo(w - B.right, up(v));
    g.stroke();
    g.setLineDash([]);
    g.fillStyle = c.surface;
    g.fillRect(right - tw - 10, up(v) + high - 12, tw + 8, 16);
    g.fillStyle = c.text;
    g.textAlign = "right";
    g.fillText(text, right - 6, up(v) + high);
  };
  const draw = (g, w, h, c) => {
    width.current = w;
    const above = new Array(rows.length).fill(0), below = new Array(rows.length).fill(0);
    kinds.forEach((_, k) => area(g, w, up, above, k, (r) => r[1 + k]));
    if (deep) tiers.forEach(([name, k]) => area(g, w, down, below, k, (r) => value(r, name)));
    marks.forEach((m, i) => mark(g, w, c, m, i));
    g.strokeStyle = c.muted;
    g.beginPath();
    g.moveTo(B.left, zero + 0.5);
    g.lineTo(w - B.right, zero + 0.5);
    g.stroke();
    g.fillStyle = c.muted;
    g.textAlign = "right";
    (part > 0.4 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).forEach((f) => g.fillText(f ? bytes(Math.round(most * f)) : "0", B.left - 6, up(most * f) + 4));
    if (deep) [0.5, 1].forEach((f) => g.fillText(bytes(Math.round(deep * f)), B.left - 6, down(deep * f) + 4));
    g.textAlign = "left";
    g.fillText(what || `${ops.toLocaleString()} ops: forward, backward, update`, B.left, h - 6, w - B.left);
  };
  const move = (e) => {
    const i = Math.round(((e.clientX - e.currentTarget.getBoundingClientRect().left - B.left) / (width.current - B.left - B.right)) * (rows.length - 1));
    point(i >= 0 && i < rows.length ? i : null);
  };
  const r = at === null ? null : rows[at], used = tiers.filter(([n]) => rows.some((row) => value(row, n) > 0)), moved = copies.filter(([n]) => rows.some((row) => value(row, n) > 0));
  const item = (name, c, v) => html`<span key=${name}><i style=${{ background: colour(c) }}></i>${name} <b>${bytes(v)}</b></span>`;
  return html`<div><div style=${{ position: "relative" }}><${Canvas} height=${height} draw=${draw} deps=${[rows, JSON.stringify(marks), what]} label=${`bytes over the ${ops} ops of a step; most: ${bytes(Math.max(...rows.map(held)))}${deep ? `, in lower tiers ${bytes(deep)}` : ""}; ${marks.map(([n, v]) => n + " " + bytes(v)).join(", ")}`} onPointerMove=${move} onPointerLeave=${() => point(null)} />
    ${r && html`<div class="cursor" style=${{ left: x(at, width.current) + "px", bottom: B.bottom + "px" }}></div>`}</div>
    <div class="legend" key=${theme}><span class="when">${r ? `op ${r[0]}: ${bytes(held(r))}` : "at the peak"}</span>${kinds.map((k, i) => item(k, i, r ? r[1 + i] : peak[k]))}${used.map(([n, c]) => item("in " + n, c, r ? value(r, n) : Math.max(...rows.map((row) => value(row, n)))))}
      ${moved.map(([n, text]) => html`<span key=${n}>${text} <b>${bytes(r ? value(r, n) : value(rows[rows.length - 1], n))}</b></span>`)}</div>
    <${TableOf} columns=${columns || ["op", ...kinds]} rows=${rows} /></div>`;
}

// What "managed" of an explanation or of a trial says: the step as a budget makes it.
export function Managed({ m, marks }) {
  const peak = useMemo(() => {
    const top = m.timeline.reduce((a, b) => (kinds.reduce((s, _, k) => s + b[1 + k] - a[1 + k], 0) > 0 ? b : a));
    return Object.fromEntries(kinds.map((k, i) => [k, top[1 + i]]));
  }, [m]);
  const told = [`by ${m.how}`, `${bytes(m.peak_bytes)} at most`, `${m.evictions.toLocaleString()} evictions`, `${m.again.toLocaleString()} of ${(m.runs - m.again).toLocaleString()} ops run again`, m.copies ? `${m.copies.toLocaleString()} copies between tiers` : null];
  return html`<div><${Timeline} rows=${m.timeline} columns=${m.columns} peak=${peak} marks=${marks} what=${`${m.runs.toLocaleString()} runs of ops, those again included`} /><p class="note">${told.filter(Boolean).join(" · ")}</p></div>`;
}
