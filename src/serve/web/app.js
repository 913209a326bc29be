// app.js - the frame: who is logged in, where in the page we are, light or dark.
import { html, render, useState, useEffect } from "./preact.js";
import * as api from "./api.js";
import { start, stop, onState } from "./live.js";
import { readPlace, Toasts, toast, Failed, Guard, link, act } from "./ui.js";
import { Experiments } from "./experiments.js";
import { Experiment } from "./experiment.js";
import { Trial } from "./trial.js";
import { Cluster } from "./cluster.js";
import { Compare } from "./compare.js";
import { Memory } from "./memory.js";

const pages = [
  [/^\/experiments$/, Experiments], [/^\/experiments\/(\d+)$/, Experiment], [/^\/trials\/(\d+)$/, Trial],
  [/^\/cluster$/, Cluster], [/^\/compare$/, Compare], [/^\/memory$/, Memory],
];
const menu = [["/experiments", "Experiments"], ["/compare", "Compare"], ["/memory", "Memory"], ["/cluster", "Cluster"]];

// ---- theme ----

const dark = matchMedia("(prefers-color-scheme: dark)");
function applyTheme() {
  const kept = localStorage.getItem("ebb-theme");
  document.documentElement.dataset.theme = kept || (dark.matches ? "dark" : "light");
  window.dispatchEvent(new Event("ebb-theme"));
}
dark.addEventListener("change", applyTheme);
applyTheme();
function Theme() {
  const [theme, set] = useState(document.documentElement.dataset.theme);
  const flip = () => { localStorage.setItem("ebb-theme", theme === "dark" ? "light" : "dark"); applyTheme(); set(document.documentElement.dataset.theme); };
  return html`<button class="quiet" onClick=${flip}>${theme === "dark" ? "Light" : "Dark"}</button>`;
}

// ---- logging in ----

function Login({ onDone, error }) {
  const [why, set] = useState(error), [busy, hold] = useState(false);
  useEffect(() => { document.title = "Log in · ebb"; }, []);
  const submit = async (e) => {
    e.preventDefault();
    hold(true);
    try { onDone(await api.login({ token: new FormData(e.target).get("token").trim() })); } catch (x) { set(x); hold(false); }
  };
  return html`<main id="main" class="login"><section class="card"><h1 style=${{ padding: "1rem 1.15rem 0" }}>ebb</h1><div class="body"><p>On the machine of the master, <code>ebb ui</code> prints a link that logs you in. Or give a token (<code>ebb user token NAME</code>):</p>
    <${Failed} error=${why} /><form onSubmit=${submit} class="toolbar"><input name="token" type="password" autocomplete="off" aria-label="token" placeholder="ebb_…" required style=${{ flex: 1 }} /><button class="primary" disabled=${busy}>Log in</button></form></div></section></main>`;
}

function Link() {
  const [state, set] = useState("wait");
  useEffect(() => onState(set), []);
  return html`<span title=${{ on: "live", off: "the master does not answer; trying again", wait: "connecting" }[state]}><span class=${"dot " + (state === "wait" ? "" : state)}></span><span class="visually-hidden" role="status">${{ on: "live", off: "the master does not answer", wait: "connecting" }[state]}</span></span>`;
}

function App() {
  const [me, set] = useState(undefined), [error, fail] = useState(null), [place, move] = useState(readPlace());
  useEffect(() => {
    // a link of 'ebb ui' may be put into a tab that is open already
    const enter = () => {
      const secret = location.hash.match(/^#login=([\w-]+)$/);
      if (secret) history.replaceState(null, "", "#/experiments");
      move(readPlace());
      (secret ? api.login({ secret: secret[1] }) : api.session()).then((s) => { fail(null); set(s); }, (e) => { if (secret || e.status !== 401) fail(e); if (secret) toast(e.message, true); set((m) => m || null); });
    };
    const come = () => (location.hash.startsWith("#login=") ? enter() : move(readPlace()));
    const out = () => { set(null); fail(new Error("This login has ended.")); };
    addEventListener("hashchange", come);
    addEventListener("popstate", come);
    addEventListener("ebb-place", come);
    addEventListener("ebb-logout", out);
    enter();
  }, []);
  useEffect(() => { if (!me) return undefined; start(me.last_event); return stop; }, [!!me]);
  if (me === undefined) return null;
  if (!me) return html`<div><${Login} key=${String(error && error.message)} onDone=${(s) => { fail(null); set(s); }} error=${error} /></div>`;
  let page = html`<p class="empty">There is no such page. <a href=${link("/experiments")}>Experiments</a></p>`;
  for (const [pattern, Page] of pages) {
    const m = place.path.match(pattern);
    if (m) page = html`<${Page} key=${place.path} place=${place} id=${m[1] && Number(m[1])} me=${me} />`;
  }
  const leave = async () => { if (await act(api.logout(), "Logged out")) set(null); };
  return html`<div><a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <header class="top"><div><a class="brand" href=${link("/experiments")}><img src="icon.svg" alt="" />ebb</a><nav class="main" aria-label="main">${menu.map(([path, text]) => html`<a key=${path} href=${link(path)} aria-current=${place.path.startsWith(path) || (path === "/experiments" && place.path.startsWith("/trials")) ? "page" : undefined}>${text}</a>`)}</nav>
      <div class="who"><${Link} /><span class="name">${me.user}${me.read_only ? " (read-only)" : ""}</span><${Theme} /><button class="quiet" onClick=${leave}>Log out</button></div></div></header>
    <main id="main" tabindex="-1"><${Guard} at=${location.hash}>${page}<//></main><${Toasts} /></div>`;
}

render(html`<${App} />`, document.getElementById("app"));
