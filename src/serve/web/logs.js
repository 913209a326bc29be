// logs.js - lines as they are printed: the last ones first, then what comes; searched and filtered by the master.
import { html, useState, useEffect, useRef } from "./preact.js";
import * as api from "./api.js";
import { listen } from "./live.js";
import { Failed } from "./ui.js";

const KEEP = 5000, PART = 1000;

// A line as a terminal would leave it: a carriage return writes over what stands there, colours are not text.
const escapes = /\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\^_])/g;
export const printed = (line) => {
  const text = line.replace(escapes, "").replace(/\r+$/, "");
  return text.slice(text.lastIndexOf("\r") + 1);
};

// As the rest of the page tells time: on the reader's clock; by hand, for there are thousands.
const clock = (t) => { const d = new Date(t); return [d.getHours(), d.getMinutes(), d.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":"); };

// q, put: where the address has what is searched; without them nothing is.
export function Logs({ path, wants, title = "Log", q = {}, put, live = true }) {
  const [lines, set] = useState([]), [error, fail] = useState(null), search = q.search || "", level = q.level || "";
  const [follow, stay] = useState(true);
  const box = useRef(), next = useRef(0), ready = useRef(false);
  const query = { search, level };
  useEffect(() => {
    let alive = true, busy = false, again = false;
    next.current = 0;
    ready.current = false;
    const load = async () => {
      if (busy) { again = true; return; }
      busy = true;
      try {
        const first = !ready.current;
        const a = await api.get(path + api.query(first ? { ...query, tail: PART, limit: PART } : { ...query, limit: PART, greater_than_id: next.current }));
        if (!alive) return;
        ready.current = true;
        again = again || (!first && a.logs.length >= PART); // there may be more than one answer holds
        next.current = a.next;
        fail(null);
        set((l) => (first ? a.logs : [...l, ...a.logs]).slice(-KEEP));
      } catch (e) { if (alive) fail(e); } finally {
        busy = false;
        if (again && alive) { again = false; load(); }
      }
    };
    const timer = setTimeout(load, search ? 250 : 0);
    const off = live ? listen(wants, load) : () => {};
    const poll = live && !wants({ type: "log" }) ? setInterval(load, 3000) : null;
    return () => { alive = false; clearTimeout(timer); clearInterval(poll); off(); };
  }, [path, search, level]);
  useEffect(() => { if (follow && box.current) box.current.scrollTop = box.current.scrollHeight; }, [lines, follow]);
  const save = async () => {
    const parts = [];
    try {
      for (let from = 0, a = null; a === null || a.logs.length > 0; from = a.next) {
        a = await api.get(path + api.query({ limit: 50000, greater_than_id: from }));
        parts.push(...a.logs.map((l) => l.message + "\n"));
        if (a.next === from) break;
      }
    } catch (e) { fail(e); return; }
    const url = URL.createObjectURL(new Blob(parts, { type: "text/plain" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = path.replace(/\W+/g, "-").replace(/^-|-$/g, "") + ".txt";
    link.click();
    URL.revokeObjectURL(url);
  };
  return html`<section class="card"><div class="card-head"><h2>${title}</h2><div class="toolbar">
      ${put && html`<input type="search" placeholder="Search" aria-label="search the log" value=${search} onInput=${(e) => put({ search: e.target.value })} />
      <select aria-label="level" value=${level} onChange=${(e) => put({ level: e.target.value })}><option value="">every level</option>${["DEBUG", "INFO", "WARNING", "ERROR"].map((l) => html`<option key=${l} value=${l}>${l.toLowerCase()}</option>`)}</select>`}
      <label class="inline"><input type="checkbox" checked=${follow} onChange=${(e) => stay(e.target.checked)} /> follow</label></div>
      <span class="actions"><button onClick=${save}>Download</button></span></div>
    <${Failed} error=${error} />
    <div class="logs" ref=${box} tabindex="0" role="log" aria-label=${title} onScroll=${(e) => { const b = e.currentTarget; if (follow && b.scrollHeight - b.scrollTop - b.clientHeight > 80) stay(false); }}>
      ${lines.map((l) => html`<div key=${l.id} class=${l.level || ""}>${l.time && html`<span title=${l.time}>${clock(l.time)}</span>`}${printed(l.message)}</div>`)}
      ${!lines.length && html`<div class="note">${search || level ? "No line is like that." : "Nothing was printed yet."}</div>`}
    </div></section>`;
}
