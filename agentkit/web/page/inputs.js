// Forms for what a paused run waits for: decisions about calls, and answers to questions.

import { escapeUnseen, make, parseJson, prettyJson } from "./dom.js";

const QUIET_MS = 1000;
let count = 0;
const newId = () => `input-${(count += 1)}`;

// A decision counts only when it was seen: one second after its buttons appear, and one second after the last key.
// What a person types ahead never presses a button.  The key that presses a button is compared with the key before it.
let lastKey = -QUIET_MS;
let wasQuiet = true;
const isQuiet = () => performance.now() - lastKey >= QUIET_MS;
document.addEventListener("keydown", () => {
  wasQuiet = isQuiet();
  lastKey = performance.now();
  for (const button of document.querySelectorAll(".decision")) button.setAttribute("aria-disabled", "true");
}, true);

function decisionButton(options, decide) {
  const appeared = performance.now();
  const isReady = (quiet) => quiet && performance.now() - appeared >= QUIET_MS;
  const press = (event) => isReady(event.detail ? isQuiet() : wasQuiet) && decide();
  const button = make("button", { type: "button", "aria-disabled": "true", ...options, onclick: press });
  const show = setInterval(() => {
    button.setAttribute("aria-disabled", String(!isReady(isQuiet())));
    if (!button.isConnected) clearInterval(show);
  }, 200);
  return button;
}

// Return a section for the interrupts; `send` gets the entries of `resume` when the last one has its answer.
// The focus never moves to a decision by itself; after one it goes to the heading of the next.
export function buildInputs(interrupts, send) {
  const entries = new Map();
  const section = make("section", { class: "pending", tabindex: "-1", "aria-label": "The agent waits for you" });
  const settle = (id, status, payload, item, text) => {
    entries.set(id, { interruptId: id, status, payload });
    item.replaceChildren(make("p", { class: "hint", text }));
    (section.querySelector("h2") ?? section).focus();
    if (entries.size === interrupts.length) send([...entries.values()]);
  };
  for (const interrupt of interrupts) {
    const item = make("div", { class: "pending-item" });
    item.append(...(interrupt.reason === "agentkit:question" ? question(interrupt, item, settle) : approval(interrupt, item, settle)));
    section.append(item);
  }
  return section;
}

function approval(interrupt, item, settle) {
  const own = interrupt.metadata?.agentkit ?? {};
  const { tool = interrupt.toolCallId, arguments: resolved = "{}", reason = "", problem: found, references = [] } = own;
  const given = escapeUnseen(prettyJson(own.written ?? resolved));
  const heading = newId();
  const reasonId = newId();
  const editId = newId();
  const why = make("input", { id: reasonId, type: "text", placeholder: "Optional: the model reads it" });
  const edit = make("textarea", { id: editId, rows: 4, spellcheck: "false" });
  edit.value = given;
  const problem = make("p", { class: "problem", role: "alert" });
  const allow = () => {
    const payload = { approved: true };
    if (edit.value !== given) {
      try {
        payload.arguments = parseJson(edit.value);
      } catch (error) {
        problem.textContent = `The arguments are not valid JSON: ${error.message}`;
        edit.focus();
        return;
      }
    }
    settle(interrupt.id, "resolved", payload, item, `${tool}: allowed`);
  };
  const refuse = () => settle(interrupt.id, "resolved", { approved: false, reason: why.value.trim() }, item, `${tool}: refused`);
  item.setAttribute("role", "group");
  item.setAttribute("aria-labelledby", heading);
  return [
    make("h2", { id: heading, tabindex: "-1" }, "Allow ", make("code", { text: tool }), "?"),
    make("p", { class: "hint", text: reason }),
    ...(found ? [make("p", { class: "problem", text: `The arguments given are not valid: ${found}` })] : []),
    make("pre", { class: "code", tabindex: "0", text: given }),
    ...references.map((text) => make("pre", { class: "code foreign", tabindex: "0", text })),
    make("details", {}, make("summary", { text: "Change the arguments, or give a reason" }),
      make("label", { for: editId, text: "Arguments" }), edit,
      make("label", { for: reasonId, text: "Reason of a refusal" }), why, problem),
    make("div", { class: "row" },
      decisionButton({ class: "decision primary", text: "Allow" }, allow),
      decisionButton({ class: "decision danger", text: "Refuse" }, refuse)),
  ];
}

// Return [label and control, a function that returns the value] for a JSON Schema.
function field(schema, name) {
  const id = newId();
  const label = make("label", { for: id, text: name });
  if (schema.enum) {
    const select = make("select", { id }, ...schema.enum.map((value, number) => make("option", { value: number, text: String(value) })));
    return [[label, select], () => schema.enum[Number(select.value)]];
  }
  if (schema.type === "boolean") {
    const select = make("select", { id }, make("option", { value: "true", text: "Yes" }), make("option", { value: "false", text: "No" }));
    return [[label, select], () => select.value === "true"];
  }
  if (schema.type === "integer" || schema.type === "number") {
    const input = make("input", { id, type: "number", required: true, step: schema.type === "integer" ? "1" : "any", min: schema.minimum, max: schema.maximum });
    return [[label, input], () => (/^-?[1-9]\d*$/.test(input.value) ? parseJson(input.value) : Number(input.value))];
  }
  if (schema.type === "object" && schema.properties) {
    const parts = Object.entries(schema.properties).map(([key, inner]) => [key, ...field(inner, inner.title ?? key)]);
    const group = make("fieldset", { id }, make("legend", { text: name }), ...parts.flatMap(([, nodes]) => nodes));
    return [[group], () => Object.fromEntries(parts.map(([key, , read]) => [key, read()]))];
  }
  if (schema.type === "string") {
    const input = make("input", { id, type: "text", required: true, pattern: schema.pattern, maxlength: schema.maxLength, minlength: schema.minLength });
    return [[label, input], () => input.value];
  }
  const input = make("textarea", { id, rows: 4, required: true });
  return [[make("label", { for: id, text: `${name} (JSON)` }), input], () => parseJson(input.value)];
}

function question(interrupt, item, settle) {
  const [nodes, read] = field(interrupt.responseSchema ?? { type: "string" }, "Answer");
  const problem = make("p", { class: "problem", role: "alert" });
  const appeared = performance.now();
  const form = make("form", {
    class: "question",
    onsubmit: (event) => {
      event.preventDefault();
      if (performance.now() - appeared < QUIET_MS) return;
      try {
        settle(interrupt.id, "resolved", read(), item, `Answered: ${interrupt.message}`);
      } catch (error) {
        problem.textContent = `The answer is not valid: ${error.message}`;
      }
    },
  }, ...nodes, problem, make("div", { class: "row" }, make("button", { type: "submit", class: "primary", text: "Answer" })));
  return [make("h2", { text: interrupt.message, tabindex: "-1" }), form];
}
