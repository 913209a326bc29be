// api.js - asking the master: paths below the page's own address, the login's secret, errors as values with a message.
const base = new URL("api/v1", document.baseURI).pathname;
let csrf = null, skew = 0;

export class ApiError extends Error {
  constructor(status, message, findings) {
    super(message);
    this.status = status;
    this.findings = findings;
  }
}

// Somebody has logged in anew in another tab: the cookie is that login's, its secret is asked for.
async function isRenewed(status, method, path, isAgain) {
  const old = csrf;
  if (status !== 403 || method === "GET" || path === "/login" || isAgain) return false;
  try { return (await session()).csrf !== old; } catch { return false; }
}

async function call(method, path, body, isAgain) {
  const headers = {};
  if (method !== "GET") headers["X-Ebb-Csrf"] = csrf || "";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(base + path, {
      method, headers, credentials: "same-origin", cache: "no-cache",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new ApiError(0, "The master does not answer.");
  }
  const there = Date.parse(answer.headers.get("Date"));
  if (there) skew = Math.abs(there - Date.now()) > 2000 ? there - Date.now() : 0; // it tells whole seconds
  if (answer.status === 204) return null;
  if (await isRenewed(answer.status, method, path, isAgain)) return call(method, path, body, true);
  const text = await answer.text();
  let value = null;
  try { value = JSON.parse(text); } catch { /* a file, or nothing */ }
  if (!answer.ok) {
    const e = (value && value.error) || {};
    if (answer.status === 401 && path !== "/login" && path !== "/session") window.dispatchEvent(new Event("ebb-logout"));
    throw new ApiError(answer.status, e.message || `${answer.status} ${answer.statusText}`, e.findings);
  }
  return value === null ? text : value;
}

export const now = () => Date.now() + skew;
export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const patch = (path, body) => call("PATCH", path, body);
export const del = (path) => call("DELETE", path);
export const eventsPath = base + "/events";
export const filePath = (path) => base + path;

export async function session() {
  const s = await get("/session");
  csrf = s.csrf;
  return s;
}
export async function login(what) {
  const s = await post("/login", what);
  csrf = s.csrf;
  return s;
}
export async function logout() {
  await del("/session");
  csrf = null;
  return true;
}

// "?a=1&b=2&b=3" of those that have a value; a list is its values
export function query(values) {
  const pairs = Object.entries(values).flatMap(([k, v]) => [].concat(v).map((x) => [k, x])).filter(([, v]) => v !== undefined && v !== null && v !== "" && v !== false);
  return pairs.length ? "?" + pairs.map(([k, v]) => encodeURIComponent(k) + "=" + encodeURIComponent(v)).join("&") : "";
}
