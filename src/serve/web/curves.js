// curves.js - curves of trials that grow: asked for once, then only for what is new.
import * as api from "./api.js";
import { useData } from "./ui.js";

const POINTS = 400, LATE = 2; // seconds: what ended before is committed by now

// The least and the greatest of each bucket stay, and both ends: as the master thins.
function thin(c, points) {
  const n = c.values.length, buckets = points / 2 - 1, keep = [0];
  if (n <= 2 * points) return c;
  for (let b = 0; b < buckets; b++) {
    const from = 1 + Math.floor((b * (n - 2)) / buckets), to = 1 + Math.floor(((b + 1) * (n - 2)) / buckets);
    let low = from, high = from;
    for (let i = from; i < to; i++) {
      if (c.values[i] < c.values[low] || c.values[low] === "NaN") low = i;
      if (c.values[i] > c.values[high] || c.values[high] === "NaN") high = i;
    }
    keep.push(Math.min(low, high));
    if (low !== high) keep.push(Math.max(low, high));
  }
  keep.push(n - 1);
  const pick = (list) => keep.map((i) => list[i]);
  return { ...c, batches: pick(c.batches), values: pick(c.values), times: pick(c.times) };
}

// A curve and what came after it; where both have a batch the newer one is right.
function join(old, more) {
  if (!more.values.length) return old;
  let n = old.batches.length;
  while (n > 0 && old.batches[n - 1] >= more.batches[0]) n--;
  const add = (key) => [...old[key].slice(0, n), ...more[key]];
  return thin({ ...old, batches: add("batches"), values: add("values"), times: add("times") }, POINTS);
}

const newest = (data) => data.curves.reduce((t, c) => Math.max(t, c.times.length ? c.times[c.times.length - 1] : 0), 0);
async function askOne(path, old, fresh) {
  const since = old && !fresh ? newest(old) - LATE : 0;
  if (since <= 0) return api.get(path);
  const more = await api.get(path + "&since=" + since.toFixed(3)), known = new Map(old.curves.map((c) => [c.trial_id, c]));
  if (more.curves.length !== known.size || !more.curves.every((c) => known.has(c.trial_id))) return api.get(path); // others are the best now
  return { ...more, curves: more.curves.map((c) => join(known.get(c.trial_id), c)) };
}
const ask = (path, old, fresh) => Promise.all(path.split("\n").map((p, i) => askOne(p, old && old[i], fresh)));

// The answers of paths of curves, each with a query, as they grow; [] while there is none.
export function useCurves(paths, wants) {
  const { data, error } = useData(paths.join("\n") || null, wants, { ask });
  return { data: data || [], error };
}
