// memory.js - memory before training: choose a model and its numbers; bytes over the step, the floor, what less memory costs.
import { html, useState, useEffect, useMemo, useRef } from "./preact.js";
import * as api from "./api.js";
import { useData, useQuery, bytes, Failed } from "./ui.js";
import { Curves, Timeline, Managed, kinds } from "./chart.js";

const optimizers = [["SGD", "SGD", {}], ["SGD+momentum", "SGD, momentum 0.9", { momentum: 0.9 }], ["Adam", "Adam", {}], ["AdamW", "AdamW", {}], ["RMSprop", "RMSprop", {}]];
const devices = [["cpu", "this processor"], ["nvidia-h200", "NVIDIA H200"]];
const units = { B: 1, KIB: 1024, MIB: 1024 ** 2, GIB: 1024 ** 3, TIB: 1024 ** 4, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };
function parseBytes(text) {
  const m = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(text || "");
  return m ? Math.floor(Number(m[1]) * (units[(m[2] || "B").toUpperCase()] || NaN)) || null : null;
}
// "height=64 blocks=2,2" as options of the model
function parseOptions(text) {
  const options = Object.create(null); // any name is one
  for (const word of (text || "").split(/[\s;]+/).filter(Boolean)) {
    const [key, value] = [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)];
    if (!word.includes("=") || !key) throw new Error(`${word}: KEY=VALUE, as height=64 or blocks=2,2,2,2`);
    const parts = value.split(",").map((v) => (v !== "" && !Number.isNaN(Number(v)) ? Number(v) : v === "true" ? true : v === "false" ? false : v));
    options[key] = parts.length > 1 ? parts : parts[0];
  }
  return options;
}

export function Memory({ place }) {
  const q = place.query, set = useQuery(place), [draft, type] = useState({}); // draft: a field that somebody has emptied; the address has no empty values
  const models = useData("/models"), list = models.data ? models.data.models : [];
  const name = "model" in draft ? "" : q.model || "resnet50", model = list.find((m) => m.name === name || (m.aliases || []).includes(name));
  const [quick, setQuick] = useState(null), [times, setTimes] = useState(null), [inside, setInside] = useState(null), [error, fail] = useState(null), [slow, setSlow] = useState(null), [busy, hold] = useState(false);
  const asked = useRef(0), changed = useRef(0);
  useEffect(() => { document.title = "Memory · ebb"; }, []);
  const form = { model: name, batch: "batch" in draft ? "" : q.batch || "32", optimizer: q.optimizer || "SGD+momentum", precision: q.precision || "fp32", options: q.options || "", device: q.device || "cpu", host: q.host || "", file: q.file || "" };
  const limit = q.budget || "", budget = parseBytes(limit), key = JSON.stringify(form) + !!model;
  const body = () => {
    const row = optimizers.find(([k]) => k === form.optimizer), tiers = ["host", "file"].filter((t) => form[t]);
    if (!model) throw new Error(`model: '${name}' is none of the ${list.length} models of the zoo`);
    if (!(Number.isInteger(Number(form.batch)) && Number(form.batch) > 0)) throw new Error(`batch: '${form.batch}' is none; allowed: a whole number > 0`);
    if (!row) throw new Error(`optimizer: '${form.optimizer}' is none of ${optimizers.map(([k]) => k).join(", ")}`);
    tiers.forEach((t) => { if (parseBytes(form[t]) === null) throw new Error(`${t}: '${form[t]}' is no size; allowed: as 512MiB, 4GiB`); });
    return { model: model.name, task: model.task, batch: Number(form.batch), optimizer: row[0].split("+")[0], opt: { lr: 0.01, ...row[2] }, precision: form.precision, device: form.device, options: parseOptions(form.options), ...Object.fromEntries(tiers.map((t) => [t, parseBytes(form[t])])) };
  };
  useEffect(() => {
    if (!models.data) return;
    const soon = Date.now() - changed.current > 500; // at once, unless somebody is typing
    changed.current = Date.now();
    const mine = ++asked.current, timer = setTimeout(async () => {
      fail(null);
      setSlow(null);
      hold(true);
      try {
        const first = await api.post("/explain", { ...body(), quick: true });
        if (mine !== asked.current) return;
        setQuick({ ...first, of: form.model });
        setTimes(null);
        try {
          const second = await api.post("/explain", body());
          if (mine === asked.current) setTimes(second);
        } catch (e) { if (mine === asked.current) setSlow(e); }
      } catch (e) { if (mine === asked.current) { fail(e); setQuick(null); setTimes(null); } } finally { if (mine === asked.current) hold(false); }
    }, soon ? 0 : 250);
    return () => clearTimeout(timer);
  }, [key, !!models.data]);
  // The step inside the budget: asked when bytes and floor are there, and it fits.
  const fits = quick && budget && budget >= quick.floor_bytes && (budget < quick.unlimited_bytes || form.host || form.file);
  useEffect(() => {
    setInside(null);
    if (!fits) return undefined;
    let alive = true;
    const timer = setTimeout(() => api.post("/explain", { ...body(), budget, quick: true }).then((a) => { if (alive && a.managed) setInside(a.managed); }, (e) => { if (alive) setInside({ error: e }); }), 300);
    return () => { alive = false; clearTimeout(timer); };
  }, [quick, fits && budget]);
  const [series, unit] = useMemo(() => {
    if (!times) return [[], "MiB"];
    const large = times.unlimited_bytes >= 2 * 2 ** 30, scale = large ? 2 ** 30 : 2 ** 20;
    return [["default", "dtr_eq"].map((p) => {
      const rows = times.budgets.filter((b) => b.policy === p && b.overhead !== null).sort((a, b) => a.budget_bytes - b.budget_bytes);
      return { label: p === "default" ? "ebb train" : "policy " + p, x: rows.map((b) => b.budget_bytes / scale), y: rows.map((b) => b.overhead) };
    }).filter((s) => s.x.length), large ? "GiB" : "MiB"];
  }, [times]);
  // The message of the command stands at the field that it names.
  const fields = [["budget", /^budget/], ["host", /(^|[^a-z])host/], ["file", /(^|memory\.)file/], ["batch", /(^|[^a-z])(batch|global_batch_size)/], ["optimizer", /^optimizer/], ["model", /(^|[^a-z])model(:|\.name)/], ["options", /(^|[^a-z])(options|model\.(?!name))|KEY=VALUE/]];
  const why = limit && !budget ? new Error(`budget: '${limit}' is no size; allowed: as 512MiB, 4GiB`) : error, blamed = why && (fields.find(([, pattern]) => pattern.test(why.message)) || [])[0];
  const field = (label, key2, control) => html`<label class="field" key=${key2}><span>${label}</span>${control}${blamed === key2 && html`<span class="error" role="alert">${why.message}</span>`}</label>`;
  const write = (key2, value, more) => { type(value === "" && (key2 === "model" || key2 === "batch") ? { [key2]: "" } : {}); set({ [key2]: value, ...more }); };
  const input = (key2, more) => html`<input value=${key2 === "budget" ? limit : form[key2]} onInput=${(e) => write(key2, e.target.value)} ...${more} />`;
  const select = (key2, rows) => html`<select value=${form[key2]} onChange=${(e) => set({ [key2]: e.target.value })}>${rows.map(([k, text]) => html`<option key=${k} value=${k}>${text}</option>`)}</select>`;
  const verdict = quick && budget && (budget >= quick.unlimited_bytes ? ["good", "fits as it is"] : budget >= quick.floor_bytes ? ["busy", form.host || form.file ? "fits with recomputation and copies" : "fits with recomputation"] : ["bad", "does not fit"]);
  const marks = quick ? [["floor", quick.floor_bytes], ...(budget ? [["budget", budget]] : [])] : [];
  return html`<div><div class="head"><h1>Memory before training</h1>${(busy || (!models.data && !models.error)) && html`<span class="note" role="status">computing…</span>`}</div>
    <section class="card" aria-label="what to train"><div class="body"><form class="facts" onSubmit=${(e) => e.preventDefault()}>
      ${field("Model", "model", html`<input list="zoo" value=${form.model} onInput=${(e) => write("model", e.target.value, { options: "" })} /><datalist id="zoo">${list.map((m) => html`<option key=${m.name} value=${m.name}>${m.summary}</option>`)}</datalist>`)}
      ${field("Batch", "batch", input("batch", { type: "number", min: 1 }))}
      ${field("Optimizer", "optimizer", select("optimizer", optimizers))}
      ${field("Precision", "precision", select("precision", ["fp32", "bf16", "fp16"].map((p) => [p, p])))}
      ${field("Device", "device", select("device", devices))}
      ${field("Options of the model", "options", input("options", { placeholder: "height=64 width=64" }))}
      ${field("Budget", "budget", input("budget", { placeholder: "as 4GiB" }))}
      ${field("Host memory below", "host", input("host", { placeholder: "none" }))}
      ${field("File below", "file", input("file", { placeholder: "none" }))}
    </form>${model && html`<p class="note">${model.summary}; ${model.parameters.toLocaleString()} parameters</p>`}
    ${why && !blamed && html`<${Failed} error=${why} />`}<${Failed} error=${models.error} /></div></section>
    ${quick && html`<section class="card" aria-label="result" data-of=${quick.of}><div class="body"><dl class="facts">
        <div><dt>Without limit</dt><dd class="big" data-bytes=${quick.unlimited_bytes}>${bytes(quick.unlimited_bytes)}</dd><dd class="note">keeps everything</dd></div>
        <div><dt>Floor</dt><dd class="big" data-bytes=${quick.floor_bytes}>${bytes(quick.floor_bytes)}</dd><dd class="note">the least that ebb train takes</dd></div>
        <div><dt>Always there</dt><dd class="big">${bytes(quick.persistent_bytes)}</dd><dd class="note">weights and optimizer</dd></div>
        <div><dt>Parameters</dt><dd class="big">${quick.parameters.toLocaleString()}</dd></div>
        ${verdict && html`<div><dt>In ${bytes(budget)}</dt><dd><span class=${"badge " + verdict[0]}>${verdict[1]}</span></dd></div>`}</dl></div></section>
      ${fits && html`<section class="card" aria-label="the step inside the budget"><h2>The step in ${bytes(budget)}</h2><div class="body">${!inside ? html`<p class="note">computing…</p>` : inside.error ? html`<${Failed} error=${inside.error} />` : html`<${Managed} m=${inside} marks=${[["budget", budget]]} />`}</div></section>`}
      <section class="card"><h2>${fits ? "The step that keeps everything" : "Bytes over a step"}</h2><div class="body"><${Timeline} rows=${quick.timeline} peak=${quick.peak} marks=${marks} /></div></section>
      <div class="grid"><section class="card" data-times=${times ? times.budgets.length : 0}><h2>Time against budget</h2><div class="body">${series.length > 0 && html`<${Curves} height=${240} series=${series} xLabel=${"budget, " + unit} label="predicted time over time without limit, against the budget" /><p class="note">Predicted time of an update over its time without limit.</p>`}
        ${times ? times.left_out > 0 && html`<p class="note">What took too long to predict is left out: ebb explain takes its time.</p>` : slow ? html`<${Failed} error=${slow} />` : html`<p class="note">computing…</p>`}</div></section>
      <section class="card"><h2>What would help most</h2><div class="body">${(quick.advice || []).length ? html`<ul class="advice">${quick.advice.map((a) => html`<li key=${a.what}><strong>−${bytes(a.bytes)}</strong> ${a.what}</li>`)}</ul>` : html`<p class="note">Nothing that is known here.</p>`}</div></section></div>
      <section class="card"><h2>By layer, at the peak</h2><div class="scroll" style=${{ maxHeight: "360px", overflowY: "auto" }} tabindex="0" role="region" aria-label="layers"><table><caption class="visually-hidden">Layers</caption><thead><tr><th scope="col">Layer</th>${kinds.map((k) => html`<th scope="col" class="num" key=${k}>${k}</th>`)}</tr></thead><tbody>${quick.layers.slice(0, 60).map((l) => html`<tr key=${l.name}><td class="mono">${l.name}</td>${kinds.map((k) => html`<td class="num" key=${k}>${l[k] ? bytes(l[k]) : ""}</td>`)}</tr>`)}</tbody></table></div></section>`}
  </div>`;
}
