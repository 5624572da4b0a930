// What the page asks the server for.  Runs are started and followed in the AG-UI protocol.

const token = new URLSearchParams(location.search).get("token") ?? "";
const headers = token ? { "x-agentkit-token": token } : {}; // Authorization is for a sign-in around the page

// The server understood the request, and did not do it.
export class Refused extends Error {}

const relative = (path) => `.${path}`; // the page may lie under the prefix of a proxy

// The address of a page for a window of its own, which sends no header.
export const addressOf = (path) => `${relative(path)}${token && `?token=${encodeURIComponent(token)}`}`;

async function check(response) {
  if (response.ok) return response;
  const text = await response.text();
  let message = text;
  try {
    message = JSON.parse(text).error ?? text;
  } catch {
    // a plain text
  }
  throw new Refused(message || `the server answered ${response.status}`);
}

export async function fetchJson(path) {
  return (await check(await fetch(relative(path), { headers, cache: "no-store" }))).json();
}

export async function post(path, body = {}) {
  return check(await fetch(relative(path), { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) }));
}

// The path of a conversation.  A browser drops "." and ".." from an address, but not when a slash is part of the name.
export const pathOf = (thread) => `/threads/${encodeURIComponent(/^\.\.?\/*$/.test(thread) ? `${thread}/` : thread)}`;

export async function rename(thread, title) {
  return check(await fetch(relative(`${pathOf(thread)}/title`), { method: "PUT", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify({ title }) }));
}

export async function remove(path) {
  return check(await fetch(relative(path), { method: "DELETE", headers }));
}

// Yield the events of a stream of server-sent events, each as [id, event].
async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const records = (rest + value).split("\n\n");
      rest = records.pop();
      for (const record of records) {
        const fields = Object.fromEntries(record.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
        if (fields.data) yield [Number(fields.id), JSON.parse(fields.data)];
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// A page that came over plain http from another machine has no crypto.randomUUID.
export const newId = (prefix) => `${prefix}-${[...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
export const newThreadId = () => newId("web");

export async function startRun(thread, { messages = [], resume, continues } = {}) {
  const body = { threadId: thread, runId: newId("run"), protocolVersion: "1.0", messages, tools: [], context: [], state: {} };
  if (resume) body.resume = resume;
  if (continues) body.forwardedProps = { continue: true };
  return readEvents(await post("/agui", body));
}

export async function attach(thread, lastId) {
  return readEvents(await check(await fetch(relative(`${pathOf(thread)}/events`), { headers: { ...headers, "last-event-id": String(lastId) }, cache: "no-store" })));
}
