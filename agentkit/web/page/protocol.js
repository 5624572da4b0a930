// What the page asks the server for.  Runs are started and followed in the AG-UI protocol.

const token = new URLSearchParams(location.search).get("token") ?? "";
const headers = token ? { "x-agentkit-token": token } : {}; // Authorization is for a sign-in around the page

// The server understood the request, and did not do it.
export class Refused extends Error {}

const relative = (path) => `.${path}`; // the page may lie under the prefix of a proxy

// The address of a page for a window of its own, which sends no header.
export const addressOf = (path) => `${relative(path)}${token && `?token=${encodeURIComponent(token)}`}`;

async function request(path, { sent, ...options } = {}) {
  const body = sent === undefined ? {} : { body: JSON.stringify(sent), headers: { "content-type": "application/json" } };
  let response;
  try {
    response = await fetch(relative(path), { cache: "no-store", ...options, ...body, headers: { ...headers, ...options.headers, ...body.headers } });
  } catch {
    throw new Error("The server cannot be reached. Is it still running?");
  }
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

export const fetchJson = async (path) => (await request(path)).json();
export const post = (path, sent = {}) => request(path, { method: "POST", sent });
export const rename = (thread, title) => request(`${pathOf(thread)}/title`, { method: "PUT", sent: { title } });
export const remove = (path) => request(path, { method: "DELETE" });

// The path of a conversation.  A browser drops "." and ".." from an address, but not when a slash is part of the name.
export const pathOf = (thread) => `/threads/${encodeURIComponent(/^\.\.?\/*$/.test(thread) ? `${thread}/` : thread)}`;

export const runPath = (run) => `/runs/${encodeURIComponent(run)}`;

// The stream that the page follows.  A browser has six connections to a server over HTTP/1.1, for all tabs together, so
// a stream that is not shown any more must end.
let stream = null;

// End the stream, and return whether there was one.
export function endStream() {
  const ended = stream;
  stream = null;
  ended?.cancel().catch(() => {});
  return Boolean(ended);
}

// Yield the events of a stream of server-sent events, each as [id, event], until its end or `endStream`.
export async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  endStream();
  stream = reader;
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
    if (stream === reader) stream = null;
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
  return post("/agui", body);
}

export const attach = (thread, lastId) => request(`${pathOf(thread)}/events`, { headers: { "last-event-id": String(lastId) } });
