// One conversation as elements.  `apply` takes the events of AG-UI in order, whether they arrive now or were stored.

import { copyButton, formatCount, formatSeconds, formatUsage, make, parseJson, prettyJson } from "./dom.js";
import { buildInputs } from "./inputs.js";
import { drawNodes } from "./markdown.js";

const MAX_SHORT_CHARS = 90;
const shorten = (text) => (text.length > MAX_SHORT_CHARS ? `${text.slice(0, MAX_SHORT_CHARS)}…` : text);
const own = (event) => event.metadata?.agentkit ?? {};

function shortArguments(text) {
  try {
    const entries = Object.entries(parseJson(text));
    return shorten(entries.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", "));
  } catch {
    return shorten(text);
  }
}

export class RunView {
  // `handlers`: showRequest(run, number), answer(entries) (absent in a replay), say(text) for the status line.
  constructor(node, handlers) {
    this.node = node;
    this.handlers = handlers;
    this.clear();
  }

  clear() {
    this.node.replaceChildren();
    this.turn = null;
    this.dirty = new Set();
    this.calls = [];
    this.items = new Map(); // the calls of all turns: one that asked has its result in the next
  }

  apply(event) {
    const handle = this[event.type];
    if (handle) handle.call(this, event);
    else if (event.type === "CUSTOM") this.custom(event);
  }

  // Show what the pieces of texts since the last call have brought.
  flush() {
    for (const { rest, text } of this.dirty) rest.textContent = text;
    this.dirty.clear();
  }

  RUN_STARTED(event) {
    const messages = event.input?.messages ?? [];
    const last = messages.at(-1);
    const work = make("ul", { class: "tree", "aria-label": "Steps of the run" });
    const details = make("details", { class: "work", open: true }, make("summary", {}, make("span", { class: "work-title", text: "Working" }), make("span", { class: "hint" })), work);
    const texts = make("div", { class: "texts" });
    const foot = make("div", { class: "turn-foot" });
    const reply = make("article", { class: "reply", "aria-label": "Agent" }, details, texts, foot);
    for (const answered of this.node.querySelectorAll(".pending")) answered.remove();
    if (this.turn?.isWaiting) this.turn.details.querySelector(".work-title").textContent = "Waited for you";
    if (last) this.node.append(this.query(last.content));
    this.node.append(reply);
    const run = event.runId;
    this.turn = { run, work, details, texts, foot, lists: new Map([["", work]]), items: new Map(), steps: new Map(), messages: new Map(), plans: new Map(), calls: 0, failed: 0 };
    details.hidden = true;
    this.say("Working");
  }

  query(content) {
    const parts = Array.isArray(content) ? content : [{ type: "text", text: String(content ?? "") }];
    const node = make("article", { class: "query", "aria-label": "You" });
    for (const part of parts) {
      if (part.type === "text") node.append(make("p", { text: part.text }));
      else node.append(this.attachment(part));
    }
    return node;
  }

  attachment(part, label = "Attachment") {
    const source = part.source ?? {};
    const url = part.image_url?.url ?? (source.type === "data" ? `data:${source.mimeType};base64,${source.value}` : "");
    const name = part.metadata?.filename ?? part.file?.filename ?? part.type;
    if (/^data:image\/(png|jpeg|gif|webp);base64,/.test(url)) return make("img", { src: url, alt: `${label}: ${name}` });
    return make("p", { class: "file", text: `${label}: ${name}` });
  }

  say(text) {
    this.handlers.say?.(text);
  }

  // The list into which the events of an agent go: that of the run, or of the innermost call that the agent works in.
  listOf(agent) {
    const turn = this.turn;
    turn.details.hidden = false;
    if (!agent) return turn.work;
    if (!turn.lists.has(agent)) {
      const list = make("ul", { class: "tree" });
      let place = agent;
      while (place && !this.items.has(place)) place = place.slice(0, Math.max(place.lastIndexOf("/"), 0));
      (this.items.get(place)?.body ?? turn.work).append(list);
      turn.lists.set(agent, list);
    }
    return turn.lists.get(agent);
  }

  STEP_STARTED(event) {
    const { turn } = this;
    const { number, model } = own(event);
    const agent = event.subagentRunId ?? "";
    const figures = make("span", { class: "hint", text: "waiting…" });
    const show = agent ? null : make("button", { type: "button", class: "link", text: "request", "aria-label": `Show request ${number}`, onclick: () => this.handlers.showRequest(turn.run, number) });
    const item = make("li", { class: "step busy" }, make("span", { class: "dot", "aria-hidden": "true" }), make("span", { text: model }), figures, show);
    this.listOf(agent).append(item);
    turn.steps.set(`${agent} ${event.stepName}`, { item, figures });
    this.say(`Asking ${model}`);
  }

  STEP_FINISHED(event) {
    const step = this.turn.steps.get(`${event.subagentRunId ?? ""} ${event.stepName}`);
    if (!step) return;
    const shown = own(event);
    step.item.classList.remove("busy");
    step.item.classList.toggle("failed", Boolean(shown.error));
    step.figures.textContent = [formatSeconds(shown.seconds), shown.error, formatUsage({ ...shown, requests: undefined })].filter(Boolean).join(" · ");
  }

  TOOL_CALL_START(event) {
    const { turn } = this;
    const brief = make("span", { class: "brief" });
    const figures = make("span", { class: "hint", text: "running…" });
    const body = make("div", { class: "call-body" });
    const box = make("details", { class: "call" }, make("summary", {}, make("span", { class: "dot", "aria-hidden": "true" }), make("code", { text: event.toolCallName }), brief, figures), body);
    const item = make("li", { class: "busy" }, box);
    this.listOf(event.subagentRunId ?? "").append(item);
    const call = { item, brief, figures, body, box, name: event.toolCallName, text: "" };
    turn.items.set(event.toolCallId, call);
    this.items.set(event.toolCallId, call);
    turn.calls += 1;
    this.say(`Calling ${event.toolCallName}`);
  }

  TOOL_CALL_ARGS(event) {
    const call = this.items.get(event.toolCallId);
    if (call) call.text += event.delta;
  }

  TOOL_CALL_END(event) {
    const call = this.items.get(event.toolCallId);
    if (!call) return;
    call.brief.textContent = shortArguments(call.text);
    call.body.prepend(make("p", { class: "label", text: "Arguments " }, copyButton(call.text, "arguments")), make("pre", { class: "code", tabindex: "0", text: prettyJson(call.text) }));
  }

  TOOL_CALL_RESULT(event) {
    const call = this.items.get(event.toolCallId);
    if (!call) return;
    const { seconds, isError, isRefused } = own(event);
    const parts = Array.isArray(event.content) ? event.content : [{ type: "text", text: event.content }];
    const content = parts.filter((part) => part.type === "text").map((part) => part.text).join("\n");
    call.item.classList.remove("busy", "waiting");
    call.item.classList.toggle("failed", Boolean(isError) && !isRefused);
    call.item.classList.toggle("refused", Boolean(isRefused));
    call.figures.textContent = [isRefused ? "refused" : isError ? "failed" : "", isRefused ? "" : formatSeconds(seconds)].filter(Boolean).join(" · ");
    call.body.append(make("p", { class: "label", text: isRefused ? "Refused " : isError ? "Error " : "Result " }, copyButton(content, "result")), make("pre", { class: "code", tabindex: "0", text: prettyJson(content) }));
    for (const part of parts) if (part.type !== "text") call.body.append(this.attachment(part, "Result"));
    if (isError && !isRefused) this.turn.failed += 1;
    this.calls.push({ name: call.name, arguments: call.text, content, isError: Boolean(isError), seconds });
  }

  SUBAGENT_STARTED(event) {
    const call = this.items.get(event.parentToolCallId);
    if (call) call.box.open = true;
    this.listOf(event.subagentRunId);
  }

  SUBAGENT_ERROR(event) {
    this.listOf(event.subagentRunId).append(make("li", { class: "note failed", text: event.message }));
  }

  TEXT_MESSAGE_START(event) {
    const rest = make("p", { class: "rest" });
    const node = make("div", { class: "markdown" }, rest);
    this.turn.texts.append(node);
    this.turn.messages.set(event.messageId, { node, rest, text: "", raw: "", place: {} });
    this.say("Writing the answer");
  }

  TEXT_MESSAGE_CONTENT(event) {
    const message = this.turn.messages.get(event.messageId);
    if (!message) return;
    const { chars, nodes } = own(event);
    message.text += event.delta;
    message.raw += event.delta;
    if (chars) {
      message.text = [...message.text].slice(chars).join("");
      message.rest.before(...drawNodes(nodes, message.place));
    }
    this.dirty.add(message);
  }

  TEXT_MESSAGE_END(event) {
    const message = this.turn.messages.get(event.messageId);
    const { nodes } = own(event);
    if (!message || !nodes) return;
    message.rest.replaceWith(...drawNodes(nodes, message.place));
    this.dirty.delete(message);
  }

  REASONING_MESSAGE_START(event) {
    const text = make("p", { class: "thought" });
    this.listOf(event.subagentRunId ?? "").append(make("li", { class: "note" }, make("details", {}, make("summary", { text: "Reasoning" }), text)));
    this.turn.messages.set(event.messageId, { node: text });
  }

  REASONING_MESSAGE_CONTENT(event) {
    this.turn.messages.get(event.messageId)?.node.append(event.delta);
  }

  custom({ name, value }) {
    const { turn } = this;
    if (!turn) return;
    if (name === "agentkit.withdrawn") {
      const message = turn.messages.get(value.messageId);
      this.dirty.delete(message);
      message?.node.remove();
      turn.messages.delete(value.messageId);
    } else if (name === "agentkit.notice") {
      this.listOf(value.agent).append(make("li", { class: value.isWarning ? "note warning" : "note", text: value.text }));
    } else if (name === "agentkit.progress") {
      const call = this.items.get(value.toolCallId);
      if (call) call.figures.textContent = shorten(value.text);
    } else if (name === "agentkit.plan") {
      this.plan(value);
    } else if (name === "agentkit.remark") {
      this.listOf(value.agent).append(make("li", { class: "note", text: value.text }));
    }
  }

  // The plan of the run stands above its answer; that of an agent inside it among its steps, where it was written first.
  plan({ agent, steps }) {
    const { turn } = this;
    const rows = steps.map(({ text, done }) => make("li", { class: done ? "done" : "" }, make("span", { "aria-hidden": "true", text: done ? "☑ " : "☐ " }), make("span", { text }), done ? make("span", { class: "hint", text: " done" }) : null));
    const open = steps.filter((step) => !step.done).length;
    const title = make("p", { class: "label", text: `Plan: ${steps.length - open} of ${steps.length} done` });
    const list = make("ol", { class: "plan", "aria-label": "Plan" }, ...rows);
    const known = turn.plans.get(agent);
    const node = make(agent ? "li" : "section", { class: agent ? "note" : "own-plan" }, title, list);
    if (known) known.replaceWith(node);
    else if (agent) this.listOf(agent).append(node);
    else turn.texts.before(node);
    turn.plans.set(agent, node);
  }

  RUN_FINISHED(event) {
    const shown = own(event);
    const kind = event.outcome?.type ?? "success";
    const waiting = new Set((event.outcome?.interrupts ?? []).map((one) => one.toolCallId));
    this.close(kind === "interrupt" ? "Waits for you" : kind === "cancelled" ? "Stopped" : "Worked", shown, waiting);
    if (kind === "cancelled") this.turn.foot.prepend(make("p", { class: "note", text: "The run was stopped." }));
    if (kind === "interrupt") this.ask(event.outcome.interrupts);
    this.say(kind === "interrupt" ? "The agent waits for you" : kind === "cancelled" ? "Stopped" : "");
  }

  ask(interrupts) {
    if (!this.handlers.answer) {
      const names = interrupts.map((one) => one.message).join("; ");
      this.turn.foot.prepend(make("p", { class: "note warning", text: `Waited for a person: ${names}` }));
      return;
    }
    const section = buildInputs(interrupts, (entries) => this.handlers.answer(entries));
    this.turn.foot.prepend(section);
    this.pending = section;
  }

  RUN_ERROR(event) {
    this.close("Failed", own(event));
    this.turn.foot.prepend(make("p", { class: "problem", text: event.message }));
    this.say("The run failed");
  }

  // A stored run whose process died has no end.
  endInterrupted() {
    if (this.turn && !this.turn.isClosed) this.close("Interrupted", {});
  }

  close(title, shown, waiting = new Set()) {
    const { turn } = this;
    this.pending = null;
    turn.isClosed = true;
    turn.isWaiting = waiting.size > 0;
    this.flush();
    const left = waiting.size ? "not run yet" : title === "Interrupted" ? "interrupted" : "stopped";
    for (const [id, call] of [...turn.items, ...turn.steps]) {
      if (!call.item.classList.contains("busy")) continue;
      call.item.classList.replace("busy", waiting.has(id) ? "waiting" : "open");
      call.figures.textContent = waiting.has(id) ? "waits for you" : left;
    }
    const calls = turn.calls ? formatCount(turn.calls, "call") : "";
    turn.details.querySelector(".work-title").textContent = title;
    turn.details.querySelector("summary .hint").textContent = [calls, turn.failed ? `${turn.failed} failed` : "", formatSeconds(shown.seconds)].filter(Boolean).join(" · ");
    turn.details.open = turn.failed > 0 || title !== "Worked";
    const figures = [formatSeconds(shown.seconds), formatUsage(shown)].filter(Boolean).join(" · ");
    const answer = [...turn.messages.values()].map((message) => message.raw ?? "").filter(Boolean).join("\n\n");
    if (figures) turn.foot.append(make("p", { class: "hint figures", text: `${figures} ` }, answer ? copyButton(answer, "answer") : null));
  }
}
