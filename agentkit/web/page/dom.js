// Elements are made here, and their text is set as text: nothing that a model or a tool wrote is read as HTML.

export function make(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
}

export const byId = (id) => document.getElementById(id);

// Copy a text.  A page that came over plain http from another machine has no navigator.clipboard.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = make("textarea", { class: "visually-hidden", text });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

// A button that copies a text.
export function copyButton(text, what) {
  const button = make("button", { type: "button", class: "link", text: "Copy", "aria-label": `Copy the ${what}` });
  button.addEventListener("click", async () => {
    await copy(text);
    button.focus();
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return button;
}

export function formatSeconds(seconds) {
  if (seconds === undefined || seconds === null) return "";
  if (seconds < 0.001) return "<1 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export function formatCount(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

export const formatCost = (cost) => (cost ? `$${cost < 0.01 ? cost.toFixed(5) : cost.toFixed(3)}` : "");

export function formatUsage(usage) {
  if (!usage) return "";
  const parts = usage.requests === undefined ? [] : [formatCount(usage.requests, "request")];
  const tokens = usage.input_tokens + usage.output_tokens;
  if (tokens) parts.push(`${usage.input_tokens.toLocaleString("en")} → ${usage.output_tokens.toLocaleString("en")} tokens`);
  if (usage.cost) parts.push(formatCost(usage.cost));
  return parts.join(" · ");
}

// Read a JSON text whose numbers keep their digits when they are written again: JavaScript rounds those above 2 ** 53.
export const parseJson = (text) => JSON.parse(text, (_, value, source) => (typeof value === "number" && JSON.rawJSON ? JSON.rawJSON(source.source) : value));

export function prettyJson(text) {
  try {
    return JSON.stringify(parseJson(text), null, 2);
  } catch {
    return text;
  }
}

// Write the characters of a JSON text that no person sees, or that turn the direction of others, as escapes.
export const escapeUnseen = (text) => text.replace(/[^\P{C}\n\r\t]|[^\P{Z} ]/gu, (mark) => mark.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));

export function formatTime(seconds) {
  const date = new Date(seconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString();
}
