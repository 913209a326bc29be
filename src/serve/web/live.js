// live.js - what changes, as it changes. One tab holds the stream and tells the others: browsers allow few connections. Every tab knows the number of the
// last event, so that who takes the stream over goes on where it ended: nothing is missed in between.
import { eventsPath } from "./api.js";

const listeners = new Set();
const states = new Set();
let state = "wait";
const channel = "BroadcastChannel" in window ? new BroadcastChannel("ebb " + eventsPath) : null;
let source = null, retry = null, last = null, release = null;

function tell(message) {
  if (message.state) {
    if (message.state !== state) {
      state = message.state;
      states.forEach((f) => f(state));
    }
    return;
  }
  last = message.last || last;
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
  source.onmessage = (e) => spread({ events: JSON.parse(e.data), last: e.lastEventId });
  source.addEventListener("cut", (e) => spread({ cut: true, events: [], last: e.lastEventId }));
  source.onerror = () => {
    spread({ state: "off" });
    source.close();
    retry = setTimeout(() => { open(); spread({ cut: true, events: [] }); }, 1000);
  };
}

// after: the number of the last event before anything was asked for.
export function start(after) {
  last = String(after || "") || last;
  if (channel) channel.onmessage = (e) => (e.data === "state?" ? source && channel.postMessage({ state }) : tell(e.data));
  if (channel && navigator.locks) {
    navigator.locks.request("ebb stream " + eventsPath, () => {
      if (!release) return undefined; // stopped while it waited
      open();
      return new Promise((done) => { release = done; });
    });
    release = () => {};
    channel.postMessage("state?");
  } else {
    open();
  }
}
// The login has ended: nobody listens until the next one.
export function stop() {
  clearTimeout(retry);
  if (source) source.close();
  source = null;
  if (release) release();
  release = null;
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
