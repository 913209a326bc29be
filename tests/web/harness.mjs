// harness.mjs - a master, perhaps an nginx before it, a browser that is watched, and tests that count.
import { chromium } from "playwright-core";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";

export const [ebb, work, ...only] = process.argv.slice(2);
export const wait = (ms) => new Promise((r) => setTimeout(r, ms));
export const cli = (...args) => execFileSync(ebb, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
export const json = (...args) => JSON.parse(cli(...args, "--json"));

const proxied = !!process.env.EBB_WEB_PROXY;
const free = () => new Promise((found) => { const s = createServer(); s.listen(0, "127.0.0.1", () => { const { port: p } = s.address(); s.close(() => found(p)); }); });
const port = await free(), proxyPort = await free();

// ---- the master ----

export let master = null;
export async function startMaster(slots = 2) {
  const more = proxied ? ["--base-path", "/ebb/", "--behind-proxy", "--host", "localhost"] : [];
  master = spawn(ebb, ["serve", "--json", "--listen", `127.0.0.1:${port}`, "--slots", String(slots), ...more], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((r) => master.stdout.once("data", r));
}
export const endMaster = (signal) => new Promise((r) => { master.once("exit", r); master.kill(signal || "SIGTERM"); });

// ---- nginx ----

let nginx = null;
export async function startProxy() {
  if (!proxied) return;
  const dir = join(work, "nginx");
  mkdirSync(dir, { recursive: true });
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", join(dir, "key.pem"), "-out", join(dir, "cert.pem"), "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], { stdio: "ignore" });
  writeFileSync(join(dir, "nginx.conf"), `daemon off; worker_processes 1; pid ${dir}/pid; error_log ${dir}/error.log;
events { worker_connections 256; }
http { access_log off; client_body_temp_path ${dir}/a; proxy_temp_path ${dir}/b; fastcgi_temp_path ${dir}/c; uwsgi_temp_path ${dir}/d; scgi_temp_path ${dir}/e;
  server { listen 127.0.0.1:${proxyPort} ssl; ssl_certificate ${dir}/cert.pem; ssl_certificate_key ${dir}/key.pem; client_max_body_size 160m;
    location /ebb/ { proxy_pass http://127.0.0.1:${port}; proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_set_header Connection ""; proxy_buffering off; proxy_read_timeout 1h; } } }
`);
  nginx = spawn("nginx", ["-p", dir, "-c", join(dir, "nginx.conf")], { stdio: "ignore" });
  for (let i = 0; i < 100 && !existsSync(join(dir, "pid")); i++) await wait(50);
}
export const endProxy = () => nginx && nginx.kill("SIGTERM");
export const base = proxied ? `https://localhost:${proxyPort}/ebb/` : `http://127.0.0.1:${port}/`;
export const loginUrl = () => base + cli("ui", "--no-open").trim().replace(/^[^#]*/, "");

// ---- the browser ----

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
export const problems = [];
let profiles = 0;
export async function openBrowser(options = {}) {
  const context = await chromium.launchPersistentContext(join(work, "profile-" + ++profiles), { executablePath: "/usr/bin/chromium", headless: true, ignoreHTTPSErrors: proxied, viewport: { width: 1280, height: 900 }, args: flags, ...options });
  context.setDefaultTimeout(10000);
  const watch = (page) => {
    page.on("console", (m) => { if (m.type() === "error" && !page.expectsErrors) problems.push(`console: ${m.text()} at ${page.url()}`); });
    page.on("pageerror", (e) => problems.push(`error: ${e.message} at ${page.url()}`));
    page.on("dialog", (d) => { problems.push(`a script ran: ${d.message()}`); d.dismiss(); });
  };
  context.on("page", watch);
  context.pages().forEach(watch);
  context.on("request", (r) => { if (!/^(blob|data):/.test(r.url()) && !r.url().startsWith(base)) problems.push(`asked another origin: ${r.url()}`); });
  return context;
}
export async function at(page, hash) {
  await page.goto(base + "#" + hash);
  await page.waitForSelector("main h1");
}

// ---- tests ----

const tests = [];
export const test = (name, run) => tests.push([name, run]);
export function check(is, what) {
  if (!is) throw new Error(what);
}
export const same = (found, want, what) => check(JSON.stringify(found) === JSON.stringify(want), `${what}: ${JSON.stringify(found)}, not ${JSON.stringify(want)}`);
export async function until(f, what, ms = 8000) {
  const start = Date.now();
  for (;;) {
    let value = null;
    try { value = await f(); } catch (e) { value = null; if (Date.now() - start > ms) throw e; }
    if (value) return value;
    if (Date.now() - start > ms) throw new Error(`not in ${ms} ms: ${what}`);
    await wait(50);
  }
}
export async function runAll() {
  let failed = 0, passed = 0;
  for (const [name, run] of tests) {
    if (only.length && !only.some((o) => name.includes(o))) continue;
    const start = Date.now();
    problems.length = 0;
    try {
      const told = await run();
      if (problems.length) throw new Error(problems.join("\n    "));
      passed++;
      console.log(`ok   ${name}${told ? ": " + told : ""} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
    } catch (e) {
      failed++;
      console.log(`FAIL ${name}: ${e.message.split("\n").slice(0, 12).join("\n    ")}`);
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0;
}
