// live.js - what changes, as it changes. One tab holds the stream and tells the others: browsers allow few connections.
import { eventsPath } from "./api.js";

const listeners = new Set();
const states = new Set();
let state = "wait";
const channel = "BroadcastChannel" in window ? new BroadcastChannel("ebb " + eventsPath) : null;
let source = null, retry = null, last = null;

function tell(message) {
  if (message.state) {
    if (message.state !== state) {
      state = message.state;
      states.forEach((f) => f(state));
    }
    return;
  }
  listeners.forEach((f) => f(message));
}
function spread(message) {
  tell(message);
  if (channel) channel.postMessage(message);
}

function open() {
  clearTimeout(retry);
  source = new EventSource(eventsPath + (last ? "?after=" + last : ""));
  source.onopen = () => spread({ state: "on" });
  source.onmessage = (e) => {
    last = e.lastEventId;
    spread({ events: JSON.parse(e.data) });
  };
  source.addEventListener("cut", (e) => {
    last = e.lastEventId;
    spread({ cut: true, events: [] });
  });
  source.onerror = () => {
    spread({ state: "off" });
    source.close();
    retry = setTimeout(() => { open(); spread({ cut: true, events: [] }); }, 1000);
  };
}

export function start() {
  if (channel) channel.onmessage = (e) => (e.data === "state?" ? source && channel.postMessage({ state }) : tell(e.data));
  if (channel && navigator.locks) {
    navigator.locks.request("ebb stream " + eventsPath, () => { open(); return new Promise(() => {}); });
    channel.postMessage("state?");
  } else {
    open();
  }
}

// Call f({events, cut}) when one of the events is wanted; at most once in `ms`, and soon after the first.
export function listen(wants, f, ms = 250) {
  let timer = null, batch = [], cut = false, lastRun = 0;
  const run = () => {
    timer = null;
    lastRun = performance.now();
    const message = { events: batch, cut };
    batch = [];
    cut = false;
    f(message);
  };
  const hear = (message) => {
    const found = message.events.filter(wants);
    if (!found.length && !message.cut) return;
    batch.push(...found);
    cut = cut || !!message.cut;
    if (timer === null) timer = setTimeout(run, Math.max(0, ms - (performance.now() - lastRun)));
  };
  listeners.add(hear);
  return () => { listeners.delete(hear); clearTimeout(timer); };
}
export function onState(f) {
  states.add(f);
  f(state);
  return () => states.delete(f);
}
