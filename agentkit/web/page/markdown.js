// Draws the trees of Markdown that the server makes (`parse_markdown`).  Elements and attributes come from the lists
// below, and texts are set as text, so nothing in a tree can run, load or style anything.

import { make } from "./dom.js";

const ELEMENTS = new Set(["p", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li", "thead", "tbody", "tr", "td", "hr", "br"]);
const HEADING = /^h[1-6]$/;
const SAFE_LINK = /^(https?:\/\/|mailto:)/i;

// Return the elements of `nodes`.  `place.level` is the level of the last heading: headings get levels without gaps
// below the page's own h1, for readers that walk from heading to heading.
export function drawNodes(nodes, place) {
  return nodes.map((node) => (typeof node === "string" ? document.createTextNode(node) : draw(node, place)));
}

function draw([name, attributes, nodes], place) {
  if (HEADING.test(name)) {
    place.level = Math.min(6, Number(name[1]) + 1, (place.level ?? 1) + 1);
    return make(`h${place.level}`, {}, ...drawNodes(nodes, place));
  }
  const children = drawNodes(nodes, place);
  if (name === "a" && SAFE_LINK.test(attributes.href)) {
    return make("a", { href: attributes.href, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children);
  }
  if (name === "table") return make("div", { class: "table", tabindex: "0" }, make("table", {}, ...children));
  if (name === "pre") return make("pre", { class: "code", tabindex: "0" }, make("code", { "data-language": attributes.lang }, ...children));
  if (name === "th") return align(make("th", { scope: "col" }, ...children), attributes);
  if (!ELEMENTS.has(name)) return make("span", {}, ...children);
  return align(make(name, name === "ol" ? { start: attributes.start } : {}, ...children), attributes);
}

function align(cell, attributes) {
  if (attributes.align) cell.style.textAlign = attributes.align;
  return cell;
}
