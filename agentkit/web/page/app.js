// The page: the list of conversations and runs, one view, the message box.

import { showComparison } from "./compare.js";
import { byId, formatCost, formatSeconds, formatTime, make } from "./dom.js";
import { addressOf, attach, endStream, fetchJson, newId, newThreadId, pathOf, post, readEvents, Refused, remove, rename, runPath, startRun } from "./protocol.js";
import { RunView } from "./run_view.js";

const RETRY_MS = 1000;
const FRAME_MS = 80;
const MAX_PLAY_GAP_MS = 700;
const LOOK_MS = 2000;
const LISTS_MS = 10000;
const LIST_LENGTH = 200; // as the server has it
const MAX_FILE_BYTES = 10_000_000;
const MAX_FILES_BYTES = 18_000_000; // of all files of a message: the server takes 25 MB, in base64
const view = byId("view");
const state = { thread: "", view: null, running: false, epoch: 0, lastId: -1, version: "", replay: null, compare: null, files: [], runs: [], threads: [], limit: LIST_LENGTH, titles: new Map(), isStored: false, isLeft: false };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function setNotice(text, ...buttons) {
  byId("notice").replaceChildren(...(text ? [make("span", { text }), ...buttons] : []));
  byId("notice").hidden = !text;
}

function setRunning(running) {
  state.running = running;
  byId("stop").hidden = !running;
  byId("send").disabled = running;
  byId("main").classList.toggle("running", running);
}

// Whether the view stays at its end while it grows: until the person scrolls up.  To ask the view itself at each event
// would lay out the whole conversation each time.
const end = { isFollowed: true, top: 0 };
const isAtEnd = () => view.scrollHeight - view.scrollTop - view.clientHeight < 120;
const scrollToEnd = () => {
  end.isFollowed = true;
  view.scrollTo({ top: view.scrollHeight });
};
view.addEventListener("scroll", () => {
  const top = view.scrollTop;
  if (top < end.top || !end.isFollowed) end.isFollowed = isAtEnd();
  end.top = top;
});
const say = (text) => {
  if (byId("status").textContent !== text) byId("status").textContent = text;
};

async function showRequest(path) {
  const dialog = byId("raw");
  byId("raw-text").textContent = "Loading…";
  dialog.showModal();
  try {
    byId("raw-text").textContent = JSON.stringify(await fetchJson(path), null, 2);
  } catch (error) {
    byId("raw-text").textContent = error.message;
  }
}

function newView(handlers) {
  view.classList.remove("comparing");
  return new RunView(view, { say, ...handlers });
}

// Begin to show something else: what was begun before sees another epoch, and does nothing more.
function beginEpoch() {
  endStream();
  state.isLeft = false;
  return (state.epoch += 1);
}

// Fetch what is to be shown, also from a server that is started again; nothing if that is refused, or when something
// else is shown meanwhile.
async function fetchShown(epoch, ...paths) {
  for (;;) {
    try {
      const found = await Promise.all(paths.map(fetchJson));
      if (epoch !== state.epoch) return [];
      setNotice("");
      return found;
    } catch (error) {
      if (epoch !== state.epoch) return [];
      setNotice(error instanceof Refused ? error.message : "The connection to the server is lost. Trying again…");
      if (error instanceof Refused) return [];
      await sleep(RETRY_MS);
    }
  }
}

// ---- conversations

async function followEvents(response, epoch) {
  if (epoch !== state.epoch) {
    response.body.cancel().catch(() => {});
    return false;
  }
  let timer = 0;
  const flush = () => {
    timer = 0;
    state.view.flush();
    if (end.isFollowed) scrollToEnd();
  };
  for await (const [id, event] of readEvents(response)) {
    if (epoch !== state.epoch) return false;
    state.lastId = id;
    state.view.apply(event);
    timer ||= setTimeout(flush, FRAME_MS);
  }
  if (epoch !== state.epoch) return false;
  flush();
  return true;
}

// Follow a run to its end.  When the connection breaks, the state is read again, from a new server too.
async function follow(open, epoch) {
  setRunning(true);
  try {
    if (!(await followEvents(await open(), epoch))) return;
    setRunning(false);
    sayState();
    loadLists();
    const found = await fetchJson(`${pathOf(state.thread)}/version`);
    if (epoch !== state.epoch) return;
    state.version = found.version;
    if (found.count === state.lastId + 1) offerToContinue(found);
    else openThread(state.thread, { again: true });
  } catch (error) {
    if (epoch !== state.epoch) return;
    if (error instanceof Refused) {
      setRunning(false);
      await openThread(state.thread, { again: true }); // what waits is asked again, or has been decided elsewhere
      setNotice(error.message);
      return;
    }
    setNotice("The connection to the server is lost. Trying again…");
    await sleep(RETRY_MS);
    if (epoch === state.epoch) openThread(state.thread, { again: true });
  }
}

const sayState = () => say(state.view.pending?.isConnected ? "The agent waits for you" : "");

// What can be done about a last run that has no answer.
const UNFINISHED = {
  interrupted: ["The last run was interrupted.", "Continue the run"],
  stopped: ["The last run was stopped.", "Continue the run"],
  failed: ["The last run failed.", "Try again"],
};

function offerToContinue({ interrupted, state: last }, continueRun = () => begin({ continues: true })) {
  if (!interrupted) return;
  const [text, action] = UNFINISHED[last] ?? UNFINISHED.interrupted;
  const button = make("button", { type: "button", class: "primary", text: action, onclick: continueRun });
  setNotice(`${text} Its finished steps are kept and are not repeated.`, button);
}

// Another window, or another process on the journal, may have continued the conversation.
async function look() {
  const { epoch, thread } = state;
  if (document.hidden || state.running || !thread) return;
  try {
    const found = await fetchJson(`${pathOf(thread)}/version`);
    if (epoch === state.epoch && found.version !== state.version) {
      await openThread(thread, { again: true });
      loadLists();
    }
  } catch {
    // the next look, or the next request of the person, shows it
  }
}

// A tab in the background follows no run: it reads the conversation again when it is shown.
function changeVisibility() {
  if (document.hidden) {
    if (endStream()) leave();
  } else if (state.isLeft) openThread(state.thread, { again: true });
  else look();
}

function leave() {
  beginEpoch();
  state.isLeft = true;
}

async function openThread(thread, { again = false } = {}) {
  const epoch = beginEpoch();
  const hadEvents = again && state.lastId >= 0;
  const top = again && !end.isFollowed ? view.scrollTop : null;
  Object.assign(state, { thread, replay: null, lastId: -1 });
  byId("scrubber").hidden = true;
  byId("composer").hidden = false;
  showReport(false);
  if (!again) setNotice("");
  const [found] = await fetchShown(epoch, pathOf(thread));
  if (!found) return;
  state.view = newView({ showRequest: (run, number) => showRequest(`${pathOf(thread)}/requests/${run}/${number}`), answer: (entries) => begin({ resume: entries }) });
  for (const event of found.events) state.view.apply(event);
  state.view.flush();
  state.lastId = found.events.length - 1;
  state.version = found.version;
  byId("title").textContent = (found.events.length && state.titles.get(thread)) || titleOf(found.events) || "New conversation";
  if (!found.events.length) showWelcome();
  if (top === null) scrollToEnd();
  else view.scrollTo({ top });
  setRunning(false);
  sayState();
  markCurrent();
  if (found.running) {
    setRunning(true);
    if (document.hidden) leave();
    else follow(() => attach(thread, state.lastId), epoch);
  } else if (found.isElsewhere) {
    say("Working in another process");
    byId("send").disabled = true;
  } else {
    state.view.endInterrupted();
    offerToContinue(found);
    if (hadEvents && !found.events.length) setNotice("The server has this conversation no more: it was deleted, or the server was started again without a journal.");
  }
}

// Continue a run that the list of the journal shows, in its conversation.
async function continueIn(thread, request) {
  history.replaceState(null, "", `#/thread/${encodeURIComponent(thread)}`);
  await openThread(thread);
  return begin(request);
}

function titleOf(events) {
  const content = events.find((event) => event.type === "RUN_STARTED")?.input?.messages?.at(-1)?.content;
  const text = Array.isArray(content) ? content.map((part) => part.text ?? "").join(" ") : String(content ?? "");
  return text.trim().slice(0, 80);
}

async function showWelcome() {
  const info = await fetchJson("/info");
  if (view.childElementCount) return;
  const tools = info.tools.map((tool) => make("li", {}, make("code", { text: tool.name }), make("span", { class: "hint", text: ` ${tool.description.split("\n")[0]}` })));
  view.append(make("div", { class: "welcome" }, make("p", { class: "lead", text: info.description || "What can I do for you?" }), tools.length ? make("ul", { class: "tools", "aria-label": "Tools" }, ...tools) : null));
}

// `giveBack` is called if the server did not take the request.
function begin(request, giveBack = () => {}) {
  const epoch = beginEpoch();
  setNotice("");
  end.isFollowed = true;
  view.querySelector(".welcome")?.remove();
  const open = async () => {
    try {
      return await startRun(state.thread, request);
    } catch (error) {
      if (epoch === state.epoch) giveBack();
      throw error;
    }
  };
  return follow(open, epoch);
}

async function encodeFile(file) {
  const address = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  const kind = file.type.startsWith("image/") ? "image" : file.type.startsWith("audio/") ? "audio" : "document";
  const source = { type: "data", value: address.slice(address.indexOf(",") + 1), mimeType: file.type };
  return { type: kind, source, metadata: { filename: file.name } };
}

async function send() {
  const box = byId("composer-text");
  const text = box.value.trim();
  if (state.running || (!text && !state.files.length)) return;
  const parts = await Promise.all(state.files.map(encodeFile));
  const content = parts.length ? [...(text ? [{ type: "text", text }] : []), ...parts] : text;
  const { files } = state;
  const fill = (value, attached) => {
    box.value = value;
    state.files = attached;
    showFiles();
    resize();
  };
  fill("", []);
  if (byId("title").textContent === "New conversation") byId("title").textContent = text.slice(0, 80) || "Attachment";
  history.replaceState(null, "", `#/thread/${encodeURIComponent(state.thread)}`);
  const giveBack = () => box.value || state.files.length || fill(text, files);
  await begin({ messages: [{ id: newId("message"), role: "user", content }] }, giveBack);
}

function showFiles() {
  const items = state.files.map((file, number) => {
    const remove = () => {
      state.files.splice(number, 1);
      showFiles();
    };
    return make("li", {}, make("span", { text: file.name }), make("button", { type: "button", class: "icon", "aria-label": `Remove ${file.name}`, onclick: remove, text: "✕" }));
  });
  byId("attachments").replaceChildren(...items);
}

function addFiles(files) {
  for (const file of files) {
    const total = state.files.reduce((sum, one) => sum + one.size, file.size);
    if (file.size > MAX_FILE_BYTES) setNotice(`${file.name} is larger than ${MAX_FILE_BYTES / 1e6} MB.`);
    else if (total > MAX_FILES_BYTES) setNotice(`${file.name} is too much: a message has at most ${MAX_FILES_BYTES / 1e6} MB of files.`);
    else state.files.push(file);
  }
  showFiles();
}

// ---- runs of the journal

// Show something else than a conversation, which is not looked for any more.
function leaveThread() {
  Object.assign(state, { thread: "", replay: null });
  for (const name of ["composer", "scrubber"]) byId(name).hidden = true;
  showReport(false);
  setRunning(false);
}

async function openRun(id) {
  const epoch = beginEpoch();
  leaveThread();
  const [run] = await fetchShown(epoch, runPath(id));
  if (!run) return;
  byId("title").textContent = run.query.slice(0, 80) || `Run ${run.id}`;
  const answer = run.thread && run.state === "paused" ? (entries) => continueIn(run.thread, { resume: entries }) : undefined;
  state.view = newView({ answer, showRequest: (_, number) => showRequest(`${runPath(run.id)}/requests/${number}`) });
  state.replay = run;
  if (run.thread && run.state !== "paused") {
    offerToContinue({ interrupted: run.id, state: run.stopped || run.state }, () => continueIn(run.thread, { continues: true }));
  }
  byId("report-window").href = addressOf(`${runPath(run.id)}/report`);
  byId("place").max = run.events.length;
  byId("scrubber").hidden = false;
  showPlace(run.events.length);
  markCurrent();
}

// Show the report of the run, with its timeline, in the place of the steps.  It has a policy of its own.
function showReport(isShown) {
  const frame = byId("report-frame");
  byId("report").setAttribute("aria-pressed", String(isShown));
  frame.hidden = !isShown;
  view.hidden = isShown;
  for (const name of ["play", "place", "place-text"]) byId(name).hidden = isShown;
  if (!isShown) frame.removeAttribute("src");
  else if (frame.src !== byId("report-window").href) frame.src = byId("report-window").href;
}

function showPlace(place) {
  const { events } = state.replay;
  state.view.clear();
  for (const event of events.slice(0, place)) state.view.apply(event);
  state.view.flush();
  byId("place").value = place;
  const begun = events[0]?.timestamp ?? 0;
  const seconds = place ? (events[place - 1].timestamp - begun) / 1000 : 0;
  byId("place-text").textContent = `${place} / ${events.length} · ${seconds.toFixed(1)} s`;
  if (place === events.length) {
    if (state.replay.state === "interrupted") state.view.endInterrupted();
    sayState();
  }
  scrollToEnd();
}

async function play() {
  const epoch = beginEpoch();
  const { events } = state.replay;
  byId("play").textContent = "Pause";
  let place = Number(byId("place").value);
  if (place >= events.length) place = 0;
  while (epoch === state.epoch && place < events.length) {
    showPlace((place += 1));
    const gap = place < events.length ? events[place].timestamp - events[place - 1].timestamp : 0;
    await sleep(Math.min(Math.max(gap, 30), MAX_PLAY_GAP_MS));
  }
  byId("play").textContent = "Play";
}

async function openComparison(left, right) {
  const epoch = beginEpoch();
  leaveThread();
  const runs = await fetchShown(epoch, runPath(left), runPath(right));
  if (!runs.length) return;
  say("");
  byId("title").textContent = "Two runs";
  view.classList.add("comparing");
  showComparison(view, ...runs, (id, number) => showRequest(`${runPath(id)}/requests/${number}`));
  view.scrollTo({ top: 0 });
  markCurrent();
}

// ---- lists

// Replace the entries of a list; the focus stays on the entry that has it.
function redraw(id, entries) {
  const list = byId(id);
  const nameOf = (one) => one.getAttribute("href") ?? one.getAttribute("aria-label");
  const focused = list.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  list.replaceChildren(...entries);
  if (focused) [...list.querySelectorAll("a, button, input")].find((one) => nameOf(one) === focused)?.focus({ preventScroll: true });
}

async function loadLists() {
  try {
    const [threads, runs, evals, info] = await Promise.all([`/threads?limit=${state.limit}`, `/runs?limit=${state.limit}`, "/evals", "/info"].map((path) => fetchJson(path)));
    state.isStored = info.isStored;
    state.titles = new Map(threads.map((thread) => [thread.id, thread.title]));
    if (state.titles.get(state.thread)) byId("title").textContent = state.titles.get(state.thread);
    state.runs = runs;
    state.threads = threads;
    showLists();
    redraw("eval-list", evals.map(evalItem));
    byId("evals").hidden = !evals.length;
    byId("compare").hidden = runs.length < 2;
    byId("older").hidden = Math.max(runs.length, threads.length) < state.limit;
    byId("run-hint").hidden = info.isStored && runs.length > 0;
    byId("run-hint").textContent = info.isStored ? "No runs yet." : "Conversations end with the server. Start it with --journal runs.db to keep them.";
    byId("subtitle").textContent = info.model;
  } catch (error) {
    if (error instanceof Refused) setNotice(error.message);
  }
}

function evalItem(entry) {
  const link = make("a", { href: addressOf(`/evals/${encodeURIComponent(entry.id)}`), target: "_blank", rel: "noopener", text: formatTime(Date.parse(entry.began) / 1000) });
  const result = entry.trials ? `${entry.passed} of ${entry.trials} passed · ${entry.models.join(", ")}` : "finished";
  return make("li", {}, link, make("span", { class: "hint", text: entry.ended ? result : "not finished" }));
}

function threadItem(thread) {
  const title = thread.title || "Conversation";
  const link = make("a", { href: `#/thread/${encodeURIComponent(thread.id)}`, text: title });
  const button = (name, text, onclick) => make("button", { type: "button", class: "icon", "aria-label": `${name}: ${title}`, text, onclick });
  const rename = state.isStored && thread.at !== null ? button("Rename", "✎", () => renameThread(thread.id, title)) : null;
  const end = thread.running ? make("span", { class: "hint", text: "working" }) : button("Delete", "✕", () => deleteThread(thread.id, title));
  return make("li", {}, link, make("span", { class: "actions" }, rename, end));
}

// Whether the server did what the person asked for; else a notice has the reason.
const isDone = (request) => request.then(() => true, (error) => setNotice(error.message));

async function renameThread(thread, old) {
  const title = prompt("Title of the conversation (empty: its first question)", old);
  if (title === null || title.trim() === old) return;
  if (!(await isDone(rename(thread, title)))) return;
  await loadLists();
  const link = [...document.querySelectorAll("#thread-list a")].find((one) => one.getAttribute("href") === `#/thread/${encodeURIComponent(thread)}`);
  link?.focus();
}

async function deleteThread(thread, title) {
  if (!confirm(`Delete "${title}" with its runs? They cannot be restored.`)) return;
  if (!(await isDone(remove(pathOf(thread))))) return;
  if (state.thread === thread) location.hash = `#/thread/${newThreadId()}`;
  await loadLists();
  byId("new-thread").focus();
}

const RUN_STATES = { paused: "waits for you", interrupted: "interrupted", stopped: "stopped" };

// The lists of conversations and runs, and what waits among them, from any process on the journal.
function showLists() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (...texts) => words.every((word) => texts.join(" ").toLowerCase().includes(word));
  redraw("thread-list", state.threads.filter((thread) => matches(thread.title, thread.id)).map(threadItem));
  redraw("run-list", state.runs.filter((run) => matches(run.query, run.id, run.model, stateOf(run))).map(runItem));
  byId("filter").hidden = Math.max(state.threads.length, state.runs.length) < 2;
  const waiting = [
    ...state.threads.filter((thread) => thread.isAsking).map((thread) => ["thread", thread.id, thread.title || "Conversation", thread.at]),
    ...state.runs.filter((run) => run.state === "paused").map((run) => ["run", run.id, run.query || run.id, run.seen]),
  ];
  redraw("inbox-list", waiting.map(([kind, id, text, at]) => make("li", {}, make("a", { href: `#/${kind}/${encodeURIComponent(id)}`, text }), at ? make("span", { class: "hint", text: formatTime(at) }) : null)));
  byId("inbox-title").textContent = `Waits for you (${waiting.length})`;
  byId("inbox").hidden = !waiting.length;
  markCurrent();
  document.title = waiting.length ? `(${waiting.length}) agentkit` : "agentkit";
}

const stateOf = (run) => RUN_STATES[run.stopped === "stopped" ? "stopped" : run.state] ?? run.state;

function runItem(run) {
  const label = run.query || run.id;
  const choice = make("input", { type: "checkbox", class: "choice", value: run.id, "aria-label": `Compare: ${label}`, hidden: !state.compare, onchange: chooseRuns });
  choice.checked = state.compare?.includes(run.id) ?? false;
  const link = make("a", { href: `#/run/${encodeURIComponent(run.id)}`, text: label });
  return make("li", {}, choice, link, make("span", { class: `hint state-${run.state}`, text: [stateOf(run), formatTime(run.begun), formatSeconds(run.seen - run.begun), formatCost(run.usage.cost)].filter(Boolean).join(" · ") }));
}

function chooseRuns() {
  const chosen = [...document.querySelectorAll(".choice:checked")].map((box) => box.value);
  state.compare = chosen;
  if (chosen.length === 2) {
    state.compare = null;
    byId("compare").textContent = "Compare";
    location.hash = `#/compare/${chosen.map(encodeURIComponent).join("/")}`;
    loadLists();
  }
}

function markCurrent() {
  for (const link of document.querySelectorAll(".list a")) {
    if (link.getAttribute("href") === location.hash) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function route() {
  toggleSide(false);
  const [kind, ...ids] = location.hash.slice(2).split("/").map(decode);
  if (kind === "run") return openRun(ids[0]);
  if (kind === "compare") return openComparison(ids[0], ids[1]);
  return openThread(ids[0] || newThreadId());
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a "%" that somebody typed
  }
}

function toggleSide(open) {
  byId("side").classList.toggle("open", open);
  byId("open-side").setAttribute("aria-expanded", String(open));
}

function resize() {
  const box = byId("composer-text");
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight, 220)}px`;
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
byId("composer-text").addEventListener("input", resize);
byId("composer-text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
byId("composer-text").addEventListener("paste", (event) => addFiles(event.clipboardData.files));
byId("attach").addEventListener("click", () => byId("files").click());
byId("files").addEventListener("change", (event) => {
  addFiles(event.target.files);
  event.target.value = "";
});
byId("stop").addEventListener("click", () => {
  say("Stopping…");
  isDone(post(`${pathOf(state.thread)}/stop`));
});
byId("new-thread").addEventListener("click", () => {
  location.hash = `#/thread/${newThreadId()}`;
  byId("composer-text").focus();
});
byId("older").addEventListener("click", () => {
  state.limit += LIST_LENGTH;
  loadLists();
});
byId("compare").addEventListener("click", () => {
  state.compare = state.compare ? null : [];
  byId("compare").textContent = state.compare ? "Cancel" : "Compare";
  for (const box of document.querySelectorAll(".choice")) box.hidden = !state.compare;
});
byId("place").addEventListener("input", (event) => {
  state.epoch += 1;
  showPlace(Number(event.target.value));
});
byId("report").addEventListener("click", () => showReport(byId("report-frame").hidden));
byId("play").addEventListener("click", () => {
  if (byId("play").textContent === "Pause") state.epoch += 1;
  else play();
});
byId("open-side").addEventListener("click", () => {
  toggleSide(true);
  byId("close-side").focus();
});
byId("close-side").addEventListener("click", () => {
  toggleSide(false);
  byId("open-side").focus();
});
byId("raw-close").addEventListener("click", () => byId("raw").close());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") toggleSide(false);
});
window.addEventListener("hashchange", route);
document.addEventListener("visibilitychange", changeVisibility);
setInterval(look, LOOK_MS);
setInterval(() => state.compare || loadLists(), LISTS_MS); // in the background too: the title says what waits
byId("filter").addEventListener("input", showLists);
loadLists();
route();
