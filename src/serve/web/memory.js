// memory.js - memory before training: choose a model and its numbers; bytes over the step, the floor, what less memory costs.
import { html, useState, useEffect, useMemo, useRef } from "./preact.js";
import * as api from "./api.js";
import { useData, useQuery, bytes, Failed } from "./ui.js";
import { Curves, Timeline, kinds } from "./chart.js";

const optimizers = [["SGD", "SGD", {}], ["SGD+momentum", "SGD, momentum 0.9", { momentum: 0.9 }], ["Adam", "Adam", {}], ["AdamW", "AdamW", {}], ["RMSprop", "RMSprop", {}]];
const units = { B: 1, KIB: 1024, MIB: 1024 ** 2, GIB: 1024 ** 3, TIB: 1024 ** 4, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };
function parseBytes(text) {
  const m = /^\s*([\d.]+)\s*([kmgt]?i?b?)\s*$/i.exec(text || "");
  if (!m) return null;
  const unit = (m[2] || "B").toUpperCase();
  return Math.floor(Number(m[1]) * (units[unit] || units[unit + "B"] || units[unit + "IB"] || NaN)) || null;
}
// "height=64 blocks=2,2" as options of the model
function parseOptions(text) {
  const options = {};
  for (const word of (text || "").split(/[\s;]+/).filter(Boolean)) {
    const [key, value] = [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)];
    if (!word.includes("=") || !key) throw new Error(`${word}: KEY=VALUE, as height=64 or blocks=2,2,2,2`);
    const parts = value.split(",").map((v) => (v !== "" && !Number.isNaN(Number(v)) ? Number(v) : v === "true" ? true : v === "false" ? false : v));
    options[key] = parts.length > 1 ? parts : parts[0];
  }
  return options;
}

export function Memory({ place }) {
  const q = place.query, set = useQuery(place);
  const models = useData("/models"), list = models.data ? models.data.models : [];
  const name = q.model || "resnet50", model = list.find((m) => m.name === name || (m.aliases || []).includes(name));
  const [quick, setQuick] = useState(null), [times, setTimes] = useState(null), [error, fail] = useState(null), [slow, setSlow] = useState(null), [busy, hold] = useState(false);
  const asked = useRef(0);
  useEffect(() => { document.title = "Memory · ebb"; }, []);
  const form = { model: name, batch: q.batch || "32", optimizer: q.optimizer || "SGD+momentum", precision: q.precision || "fp32", options: q.options || "", budget: q.budget || "" };
  const key = JSON.stringify(form) + !!model;
  useEffect(() => {
    if (!models.data) return;
    const mine = ++asked.current, timer = setTimeout(async () => {
      const row = optimizers.find(([k]) => k === form.optimizer) || optimizers[0];
      fail(null);
      setSlow(null);
      hold(true);
      try {
        if (!model) throw new Error(`model: '${name}' is none of the ${list.length} models of the zoo`);
        const body = { model: model.name, task: model.task, batch: Number(form.batch), optimizer: row[0].split("+")[0], opt: { lr: 0.01, ...row[2] }, precision: form.precision, options: parseOptions(form.options) };
        const first = await api.post("/explain", { ...body, quick: true });
        if (mine !== asked.current) return;
        setQuick(first);
        setTimes(null);
        try {
          const second = await api.post("/explain", body);
          if (mine === asked.current) setTimes(second);
        } catch (e) { if (mine === asked.current) setSlow(e); }
      } catch (e) { if (mine === asked.current) { fail(e); setQuick(null); setTimes(null); } } finally { if (mine === asked.current) hold(false); }
    }, 300);
    return () => clearTimeout(timer);
  }, [key, !!models.data]);
  const budget = parseBytes(form.budget);
  const series = useMemo(() => {
    if (!times) return [];
    return ["default", "dtr_eq"].map((p) => { const rows = times.budgets.filter((b) => b.policy === p && b.overhead !== null).sort((a, b) => a.budget_bytes - b.budget_bytes); return { label: p === "default" ? "ebb train" : p, x: rows.map((b) => b.budget_bytes / 2 ** 20), y: rows.map((b) => b.overhead) }; }).filter((s) => s.x.length);
  }, [times]);
  const at = (word) => error && new RegExp("(^|[^a-z])" + word).test(error.message);
  const field = (label, key2, control, bad) => html`<label class="field" key=${key2}><span>${label}</span>${control}${bad && html`<span class="error" role="alert">${error.message}</span>`}</label>`;
  const input = (key2, more) => html`<input value=${form[key2]} onInput=${(e) => set({ [key2]: e.target.value })} ...${more} />`;
  const known = at("model|options") || at("batch|global_batch_size") || at("budget");
  return html`<div><div class="head"><h1>Memory before training</h1>${busy && html`<span class="note" role="status">computing…</span>`}</div>
    <section class="card" aria-label="what to train"><div class="body"><form class="facts" onSubmit=${(e) => e.preventDefault()}>
      ${field("Model", "model", html`<input list="zoo" value=${form.model} onInput=${(e) => set({ model: e.target.value, options: "" })} /><datalist id="zoo">${list.map((m) => html`<option key=${m.name} value=${m.name}>${m.summary}</option>`)}</datalist>`, at("model:|model\\.name"))}
      ${field("Batch", "batch", input("batch", { type: "number", min: 1 }), at("batch|global_batch_size"))}
      ${field("Optimizer", "optimizer", html`<select value=${form.optimizer} onChange=${(e) => set({ optimizer: e.target.value })}>${optimizers.map(([k, text]) => html`<option key=${k} value=${k}>${text}</option>`)}</select>`)}
      ${field("Precision", "precision", html`<select value=${form.precision} onChange=${(e) => set({ precision: e.target.value })}>${["fp32", "bf16", "fp16"].map((p) => html`<option key=${p} value=${p}>${p}</option>`)}</select>`)}
      ${field("Budget", "budget", input("budget", { placeholder: "4GiB" }), form.budget && !budget ? false : false)}
      ${field("Options of the model", "options", input("options", { placeholder: "height=64 width=64" }), at("options|model\\.(?!name)") || (error && /KEY=VALUE/.test(error.message)))}
    </form>${model && html`<p class="note">${model.summary}; ${model.parameters.toLocaleString()} parameters</p>`}
    ${form.budget && !budget && html`<p class="error">budget: '${form.budget}' is no size; allowed: as 512MiB, 4GiB</p>`}
    ${error && !known && html`<${Failed} error=${error} />`}<${Failed} error=${models.error} /></div></section>
    ${quick && html`<section class="card" aria-label="result"><div class="body"><dl class="facts">
        <div><dt>Without limit</dt><dd class="big" data-bytes=${quick.unlimited_bytes}>${bytes(quick.unlimited_bytes)}</dd></div>
        <div><dt>Floor</dt><dd class="big" data-bytes=${quick.floor_bytes}>${bytes(quick.floor_bytes)}</dd><dd class="note">the least that ebb train takes</dd></div>
        <div><dt>Always there</dt><dd class="big">${bytes(quick.persistent_bytes)}</dd><dd class="note">weights and optimizer</dd></div>
        <div><dt>Parameters</dt><dd class="big">${quick.parameters.toLocaleString()}</dd></div>
        ${budget && html`<div><dt>In ${bytes(budget)}</dt><dd><span class=${"badge " + (budget >= quick.unlimited_bytes ? "good" : budget >= quick.floor_bytes ? "busy" : "bad")}>${budget >= quick.unlimited_bytes ? "fits as it is" : budget >= quick.floor_bytes ? "fits with recomputation" : "does not fit"}</span></dd></div>`}</dl></div></section>
      <section class="card"><h2>Bytes over a step</h2><div class="body"><${Timeline} rows=${quick.timeline} peak=${quick.peak} marks=${[["floor", quick.floor_bytes], ...(budget ? [["budget", budget]] : [])]} /></div></section>
      <div class="grid"><section class="card"><h2>Time against budget</h2><div class="body">${series.length ? html`<${Curves} height=${240} series=${series} xLabel="budget, MiB" label="predicted time over time without limit, against the budget" /><p class="note">Predicted time of an update over its time without limit.</p>` : slow ? html`<${Failed} error=${slow} />` : html`<p class="note">computing…</p>`}</div></section>
      <section class="card"><h2>What would help most</h2><div class="body">${(quick.advice || []).length ? html`<ul>${quick.advice.map((a) => html`<li key=${a.what}><strong>−${bytes(a.bytes)}</strong> ${a.what}</li>`)}</ul>` : html`<p class="note">Nothing that is known here.</p>`}</div></section></div>
      <section class="card"><h2>By layer, at the peak</h2><div class="scroll" style=${{ maxHeight: "360px", overflowY: "auto" }} tabindex="0" role="region" aria-label="layers"><table><caption class="visually-hidden">Layers</caption><thead><tr><th scope="col">Layer</th>${kinds.map((k) => html`<th scope="col" class="num" key=${k}>${k}</th>`)}</tr></thead><tbody>${quick.layers.slice(0, 60).map((l) => html`<tr key=${l.name}><td class="mono">${l.name}</td>${kinds.map((k) => html`<td class="num" key=${k}>${l[k] ? bytes(l[k]) : ""}</td>`)}</tr>`)}</tbody></table></div></section>`}
  </div>`;
}
