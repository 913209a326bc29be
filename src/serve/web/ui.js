// ui.js - small parts that pages are made of, and how values are written.
import { html, useState, useEffect, useRef, useCallback, useErrorBoundary } from "./preact.js";
import * as api from "./api.js";
import { listen } from "./live.js";

// ---- values ----

// By a name that somebody has chosen: every object has a "constructor".
export const own = (o, name) => (o && typeof o === "object" && Object.hasOwn(o, name) ? o[name] : undefined);
export const num = (v) => (typeof v === "number" ? v : v === "Infinity" ? Infinity : v === "-Infinity" ? -Infinity : v === null || v === undefined ? null : NaN);
export function fmt(v) {
  if (v === null || v === undefined || v === "") return "–";
  if (typeof v === "boolean") return v ? "true" : "false";
  if (typeof v !== "number") return typeof v === "object" ? JSON.stringify(v) : String(v);
  if (!Number.isFinite(v)) return String(v);
  if (Number.isInteger(v) && Math.abs(v) < 1e15) return String(v);
  const a = Math.abs(v);
  return a !== 0 && (a < 1e-3 || a >= 1e6) ? v.toExponential(3) : String(Number(v.toPrecision(5)));
}
// For the ends of an axis.
export const short = (v) => (typeof v === "number" && Number.isFinite(v) ? (Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(1) : String(Number(v.toPrecision(3)))) : String(v === undefined ? "" : v).slice(0, 10));
export function bytes(v) {
  if (v === null || v === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (v >= 1024 && i < 4) { v /= 1024; i++; }
  return (i === 0 ? v : v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0)) + " " + units[i];
}
export const seconds = (s) => {
  if (s === null || s === undefined || !Number.isFinite(s)) return "–";
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 60) return s.toFixed(s < 10 ? 1 : 0) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + String(Math.floor(s % 60)).padStart(2, "0") + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + String(Math.floor((s % 3600) / 60)).padStart(2, "0") + " min";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
};
export const when = (t) => {
  if (!t) return "–";
  const d = new Date(t), today = new Date().toDateString() === d.toDateString();
  const time = d.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  return today ? time : d.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" }) + " " + time;
};
// By the clock of the master: that of the browser may be another.
export const lasted = (from, to) => (from ? seconds(Math.max(0, (to ? Date.parse(to) : api.now()) - Date.parse(from)) / 1000) : "–");
export const Time = ({ at }) => (at ? html`<time dateTime=${at} title=${new Date(at).toISOString()}>${when(at)}</time>` : "–");

const looks = { ACTIVE: "busy", COMPLETED: "good", ERROR: "bad", DELETE_FAILED: "bad", PAUSED: "warn", STOPPING_CANCELED: "warn", STOPPING_COMPLETED: "busy", STOPPING_ERROR: "bad", DELETING: "warn", PENDING: "warn", RUNNING: "busy", TERMINATING: "warn", running: "busy", pending: "warn", terminating: "warn" };
export const State = ({ state }) => html`<span class=${"badge " + (looks[state] || "")}>${String(state).toLowerCase().replaceAll("_", " ")}</span>`;
export const isEnded = (s) => ["COMPLETED", "CANCELED", "ERROR", "DELETE_FAILED"].includes(s);

export const Progress = ({ value, label }) =>
  html`<span class="bar" role="progressbar" aria-label=${label || "progress"} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(100 * (value || 0))}><span style=${{ width: `${(100 * (value || 0)).toFixed(1)}%` }}></span></span>`;

// ---- where we are: everything that can be seen stands in the address ----

const lists = ["label", "user", "axis", "range", "m"];
export function readPlace() {
  const [path, search] = location.hash.replace(/^#/, "").split("?");
  const query = {};
  for (const [k, v] of new URLSearchParams(search || "")) query[k] = lists.includes(k) && query[k] !== undefined ? [].concat(query[k], v) : v;
  return { path: path || "/experiments", query };
}
// A value of the address that may stand there several times.
export const listOf = (v) => (v === undefined || v === "" ? [] : [].concat(v));
export function go(path, query, replace) {
  const hash = "#" + path + api.query(query || {});
  if (hash === location.hash) return;
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  window.dispatchEvent(new Event("ebb-place"));
}
export const link = (path, query) => "#" + path + api.query(query || {});
// Change some of what the address says; null takes a value out.
export const useQuery = (place) => useCallback((change, push) => go(place.path, { ...readPlace().query, ...change }, !push), [place.path]);

// ---- asking ----

// What `path` answers; asked again when it changes, and when an event comes that `wants` wants, at most once in `ms`. ask(path, old, fresh): asks in another
// way, knowing the answer before it; fresh: that one may be wrong, not only old.
const turns = (e) => e.type === "trial" || e.type === "experiment";
export function useData(path, wants, { ask = api.get, ms = 250 } = {}) {
  const [state, set] = useState({ data: null, error: null, path: null });
  const alive = useRef(0), wanted = useRef(wants), last = useRef(state);
  wanted.current = wants;
  const busy = useRef(null); // the path that is being asked for; who wants it meanwhile gets it once more, after that
  const load = useCallback((fresh = true) => {
    if (!path) return Promise.resolve();
    if (busy.current && busy.current.path === path) { busy.current.again = true; busy.current.fresh = busy.current.fresh || fresh; return busy.current.done; }
    const mine = ++alive.current, job = { path, again: false, fresh: false };
    const put = (next) => { if (mine === alive.current) { last.current = next; set(next); } };
    busy.current = job;
    job.done = ask(path, last.current.path === path ? last.current.data : null, fresh).then(
      (data) => put({ data, error: null, path }),
      (error) => put({ data: last.current.path === path ? last.current.data : null, error, path })).then(() => {
      if (busy.current !== job) return undefined;
      busy.current = null;
      return job.again && mine === alive.current ? load(job.fresh) : undefined;
    });
    return job.done;
  }, [path]);
  useEffect(() => { load(); return () => { alive.current++; busy.current = null; }; }, [load]);
  useEffect(() => listen((e) => !!wanted.current && wanted.current(e), (m) => { if (wanted.current || m.cut) load(m.cut || m.events.some(turns)); }, ms), [load]);
  return { data: path ? state.data : null, error: path ? state.error : null, reload: load, isOld: state.path !== path };
}

// ---- messages ----

export function toast(text, bad) {
  window.dispatchEvent(new CustomEvent("ebb-toast", { detail: { text, bad } }));
}
export function Toasts() {
  const [items, set] = useState([]);
  useEffect(() => {
    const add = (e) => {
      const item = { ...e.detail, key: Math.random() };
      set((l) => [...l.slice(-3), item]);
      setTimeout(() => set((l) => l.filter((x) => x !== item)), item.bad ? 8000 : 3500);
    };
    window.addEventListener("ebb-toast", add);
    return () => window.removeEventListener("ebb-toast", add);
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">${items.map((t) => html`<div key=${t.key} class=${"toast" + (t.bad ? " bad" : "")}>${t.text}</div>`)}</div>`;
}
// Do it; say what came of it.
export async function act(promise, done) {
  try {
    const answer = await promise;
    if (done) toast(done);
    return answer === null ? true : answer;
  } catch (e) {
    toast(e.message, true);
    return undefined;
  }
}
export const Failed = ({ error }) => (error ? html`<p class="error" role="alert">${error.message}</p>` : null);
// What cannot be drawn says so in its place, and leaves the rest of the page alone; another place is another try.
export function Guard({ at, children }) {
  const [error, reset] = useErrorBoundary((e) => console.error(e));
  useEffect(() => { if (error) reset(); }, [at]);
  return error ? html`<div class="error" role="alert">This cannot be drawn: ${String(error.message || error)}</div>` : children;
}
// A page whose subject is not there (yet).
export const Missing = ({ error, what }) => (error ? html`<div><nav class="crumbs" aria-label="breadcrumb"><a href=${link("/experiments")}>Experiments</a></nav><div class="head"><h1>${what}</h1></div><${Failed} error=${error} />${error.status === 404 && html`<p class="note">It may have been deleted. <a href=${link("/experiments")}>All experiments</a></p>`}</div>` : html`<p class="note">…</p>`);

// ---- parts ----

export function Tabs({ items, at, onChange, label }) {
  const move = (e) => {
    const i = items.findIndex(([k]) => k === at), step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    e.preventDefault();
    const next = items[(i + step + items.length) % items.length][0];
    onChange(next);
    requestAnimationFrame(() => { const b = document.getElementById("tab-" + next); if (b) b.focus(); });
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${items.map(([key, text]) => html`<button key=${key} role="tab" id=${"tab-" + key} aria-controls="tab-panel" aria-selected=${key === at ? "true" : "false"} tabIndex=${key === at ? 0 : -1} onClick=${() => onChange(key)}>${text}</button>`)}
  </div>`;
}

export function Dialog({ title, onClose, onSubmit, children, submit = "Save", danger, wide }) {
  const ref = useRef();
  const [busy, setBusy] = useState(false), [error, setError] = useState(null);
  useEffect(() => { ref.current.showModal(); }, []);
  const send = async (e) => {
    e.preventDefault();
    setBusy(true);
    setError(null);
    try { await onSubmit(new FormData(e.target)); onClose(); } catch (err) { setError(err); setBusy(false); }
  };
  return html`<dialog ref=${ref} onClose=${onClose} aria-labelledby="dialog-title" style=${wide ? { width: "min(960px, calc(100vw - 2rem))" } : {}}>
    <form onSubmit=${send}><h2 id="dialog-title">${title}</h2>${children}
      ${error && html`<div class="error" role="alert">${error.message}${(error.findings || []).map((f) => html`<div key=${f.path + f.line}>${f.line ? f.line + ":" + f.column + " " : ""}${f.path}: ${f.message}</div>`)}</div>`}
      <div class="actions"><button type="button" onClick=${() => ref.current.close()}>Cancel</button>
      <button class=${danger ? "danger" : "primary"} disabled=${busy}>${submit}</button></div></form></dialog>`;
}

export function Sorted({ name, text, sort, onSort, num: isNum }) {
  const down = sort === "-" + name, up = sort === name;
  return html`<th scope="col" class=${isNum ? "num" : ""} aria-sort=${up ? "ascending" : down ? "descending" : "none"}>
    <button onClick=${() => onSort(down ? name : up ? "-" + name : (name === "id" || isNum ? "-" : "") + name)}>${text}${up ? " ▲" : down ? " ▼" : ""}</button></th>`;
}
export function Pager({ offset, limit, total, onMove }) {
  useEffect(() => { if (offset > 0 && offset >= total) onMove(Math.max(0, Math.floor((total - 1) / limit) * limit)); }, [offset, limit, total]); // rows have gone
  return html`<div class="pager">
  <span>${total === 0 ? "none" : `${offset + 1}–${Math.min(offset + limit, total)} of ${total.toLocaleString()}`}</span>
  ${total > limit && html`<span class="actions"><button disabled=${offset === 0} onClick=${() => onMove(Math.max(0, offset - limit))}>Previous</button>
  <button disabled=${offset + limit >= total} onClick=${() => onMove(offset + limit)}>Next</button></span>`}</div>`;
}

// A field that is taken when it is left. The page is drawn again whenever there is news: what is being typed stays.
export function Typed({ value, onTake, ...more }) {
  const at = useRef(null), show = () => { at.current.value = value ?? ""; };
  useEffect(() => { if (at.current !== document.activeElement) show(); }, [value]);
  return html`<input ...${more} ref=${at} onChange=${(e) => onTake(e.target.value)} onBlur=${show} />`;
}

export function Labels({ labels, onAdd, onRemove, onPick, canEdit }) {
  const [adding, setAdding] = useState(false);
  const add = (e) => {
    e.preventDefault();
    const text = new FormData(e.target).get("label").trim();
    setAdding(false);
    if (text) onAdd(text);
  };
  return html`<span>${labels.map((l) => html`<span class="chip" key=${l}>${onPick ? html`<button title="show those with this label" onClick=${() => onPick(l)}>${l}</button>` : l}${canEdit && html`<button aria-label=${"remove label " + l} onClick=${() => onRemove(l)}>×</button>`}</span>`)}
    ${canEdit && (adding
      ? html`<form onSubmit=${add} style=${{ display: "inline" }}><input name="label" aria-label="new label" size="10" autofocus onBlur=${() => setTimeout(() => setAdding(false), 150)} ref=${(x) => x && x.focus()} /></form>`
      : html`<button class="quiet add" onClick=${() => setAdding(true)}>+ label</button>`)}</span>`;
}

// ebb writes event files; the program that shows them is Python's, started where the files are.
export const TensorBoard = ({ words, path, onClose }) => html`<${Dialog} title="TensorBoard" submit="Close" onClose=${onClose} onSubmit=${() => {}}><p>On the master's machine:</p><pre class="code command">ebb tensorboard start ${words}</pre>${path && html`<p class="note">Event files: <span class="mono">${path}</span></p>`}<//>`;

export function useNow(ms = 1000, on = true) {
  const [, set] = useState(0);
  useEffect(() => {
    if (!on) return undefined;
    const t = setInterval(() => set((n) => n + 1), ms);
    return () => clearInterval(t);
  }, [ms, on]);
}

// ---- YAML of a configuration, as people edit it ----

const plain = (s) => /^[A-Za-z_/][\w ./@+-]*$/.test(s) && !/^(true|false|null|yes|no|on|off|y|n|~)$/i.test(s) && !/\s$/.test(s);
// As JSON writes it, and without what YAML does not let stand there.
const quoted = (s) => JSON.stringify(s).replace(/[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const scalar = (v) => (typeof v === "string" ? (plain(v) ? v : quoted(v)) : v === null || v === undefined ? "null" : String(v));
const isLeaf = (v) => v === null || typeof v !== "object" || Object.keys(v).length === 0;
export function toYaml(v, indent = "") {
  if (Array.isArray(v)) {
    if (v.every(isLeaf)) return "[" + v.map((x) => (typeof x === "object" && x ? (Array.isArray(x) ? "[]" : "{}") : scalar(x))).join(", ") + "]\n";
    return "\n" + v.map((x) => indent + "- " + toYaml(x, indent + "  ").replace(/^\n\s*/, "")).join("");
  }
  if (v && typeof v === "object") {
    const keys = Object.keys(v);
    if (!keys.length) return "{}\n";
    return (indent === "" ? "" : "\n") + keys.map((k) => indent + (plain(k) ? k : quoted(k)) + ":" +
      (isLeaf(v[k]) && !(v[k] && typeof v[k] === "object") ? " " + scalar(v[k]) + "\n" : (() => { const t = toYaml(v[k], indent + "  "); return t.startsWith("\n") ? t : " " + t; })())).join("");
  }
  return scalar(v) + "\n";
}
