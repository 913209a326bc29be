// compare.js - experiments or trials over each other: curves, and what differs in how they were made.
import { html, useEffect, useMemo } from "./preact.js";
import * as api from "./api.js";
import { useData, useQuery, link, go, State, Failed, fmt, num } from "./ui.js";
import { Curves, colour } from "./chart.js";
import { useCurves } from "./curves.js";
import { ChartControls, axisX, xLabels } from "./experiment.js";

const listIds = (text) => (text ? String(text).split(",").filter(Boolean) : []);

export function Compare({ place }) {
  const q = place.query, set = useQuery(place), has = q.ids || q.trials;
  const { data, error, isOld } = useData(has ? "/compare" + api.query({ ids: q.ids, trials: q.trials }) : null, (e) => e.type === "experiment");
  const sides = data && !isOld ? data.sides : [], trials = sides.map((s) => s.trial_id).filter(Boolean);
  const names = useData(sides.length ? `/experiments/${sides[0].experiment_id}/metric-names` : null).data;
  const { data: [curves], error: failed } = useCurves(trials.length ? ["/curves" + api.query({ trials: trials.join(","), metric: q.metric, kind: q.kind })] : [], (e) => trials.includes(e.trial_id) && (e.type === "validation" || e.type === "step" || e.type === "trial"));
  useEffect(() => { document.title = "Compare · ebb"; }, []);
  const whole = listIds(q.ids), isTrial = (i) => i >= whole.length, whose = new Map(sides.filter((_, i) => !isTrial(i)).map((s) => [s.trial_id, s.experiment_id])); // experiments come first
  const series = useMemo(() => (curves ? curves.curves.filter((c) => c.values.length).map((c, i) => ({ id: c.trial_id, label: whose.has(c.trial_id) ? `experiment ${whose.get(c.trial_id)} (trial ${c.trial_id})` : `trial ${c.trial_id}`, colour: colour(i), x: axisX(q.x, c, c.times[0], 1), y: c.values.map(num) })) : []), [curves, q.x]);
  const submit = (e) => { e.preventDefault(); const f = new FormData(e.target); go("/compare", { ids: f.get("ids").replace(/\s+/g, ""), trials: f.get("trials").replace(/\s+/g, "") }); };
  const name = (s, i) => (!isTrial(i) ? html`<a href=${link("/experiments/" + s.experiment_id)}>experiment ${s.experiment_id}</a>` : html`<a href=${link("/trials/" + s.trial_id)}>trial ${s.trial_id}</a>`);
  return html`<div><div class="head"><h1>Compare</h1></div>
    <section class="card"><div class="body"><form class="toolbar" onSubmit=${submit}><label class="inline">experiments <input name="ids" placeholder="1,2" defaultValue=${q.ids || ""} key=${"i" + q.ids} /></label><label class="inline">trials <input name="trials" placeholder="7,8" defaultValue=${q.trials || ""} key=${"t" + q.trials} /></label><button class="primary">Compare</button></form>
      <p class="note">Or tick some in a list of experiments or trials, and press Compare there.</p><${Failed} error=${error || failed} /></div></section>
    ${sides.length > 0 && html`<section class="card"><div class="card-head"><h2>Curves</h2><${ChartControls} q=${q} set=${set} names=${names} kinds=${["batches", "seconds", "time"]} /></div><div class="body"><${Curves} series=${series} logY=${!!q.log} smoothing=${Number(q.smooth) || 0} xLabel=${xLabels[q.x || "batches"]} xTime=${q.x === "time"} label="curves over each other" onPick=${(s) => go("/trials/" + s.id)} /></div></section>
    <section class="card"><div class="card-head"><h2>What differs</h2><span class="note">${data.differing.length} of ${data.keys} keys</span></div><div class="scroll"><table><caption class="visually-hidden">What differs</caption><thead><tr><th scope="col">Key</th>${sides.map((s, i) => html`<th scope="col" key=${i}>${name(s, i)}</th>`)}</tr></thead>
      <tbody><tr><th scope="row">state</th>${sides.map((s, i) => html`<td key=${i}><${State} state=${s.state} /></td>`)}</tr><tr><th scope="row">best</th>${sides.map((s, i) => html`<td key=${i} class="mono">${fmt(num(s.best_metric))} <span class="note">${s.metric}</span></td>`)}</tr>
      ${data.differing.map((d) => html`<tr key=${d.key}><th scope="row" class="mono">${d.key}</th>${d.values.map((v, i) => html`<td key=${i} class="mono">${fmt(v)}</td>`)}</tr>`)}</tbody></table></div></section>`}
  </div>`;
}
