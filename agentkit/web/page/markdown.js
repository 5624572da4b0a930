// A small Markdown reader that builds elements.  HTML in the text stays text, an image becomes a link (the page loads
// nothing from elsewhere), and a link leads to http, https or mailto only.

import { make } from "./dom.js";

const SAFE_LINK = /^(https?:\/\/|mailto:)/i;
const INLINE = /(`+)([^`](?:[\s\S]{0,4000}?[^`])?)\1(?!`)|(!?)\[([^\]\n]{0,500})\]\(\s*<?([^\s<>()]{1,2000})>?(?:\s+"[^"\n]{0,500}")?\s*\)|\*\*(?=\S)([^*]{1,2000}?)\*\*|__(?=\S)([^_]{1,2000}?)__|\*(?=\S)([^*\n]{1,2000}?)\*|(?<!\w)_(?=\S)([^_\n]{1,2000}?)_(?!\w)|~~(?=\S)([^~\n]{1,2000}?)~~|(https?:\/\/[^\s<>()"']{1,2000}[^\s<>()"'.,;:!?])/;
const MAX_DEPTH = 6;

function link(address, children) {
  if (!SAFE_LINK.test(address)) return make("span", { class: "dead-link", title: "This address is not opened." }, ...children);
  return make("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children);
}

export function inline(text, depth = 0) {
  const nodes = [];
  let rest = text;
  while (rest) {
    const found = depth < MAX_DEPTH ? INLINE.exec(rest) : null;
    if (!found) {
      nodes.push(document.createTextNode(rest));
      break;
    }
    if (found.index) nodes.push(document.createTextNode(rest.slice(0, found.index)));
    const [whole, , code, image, label, address, strong, strong2, italic, italic2, struck, bare] = found;
    if (code !== undefined) nodes.push(make("code", { text: code.trim() || code }));
    else if (address !== undefined) nodes.push(link(address, image ? [`Image: ${label || address}`] : inline(label, depth + 1)));
    else if (strong ?? strong2) nodes.push(make("strong", {}, ...inline(strong ?? strong2, depth + 1)));
    else if (italic ?? italic2) nodes.push(make("em", {}, ...inline(italic ?? italic2, depth + 1)));
    else if (struck) nodes.push(make("s", {}, ...inline(struck, depth + 1)));
    else nodes.push(link(bare, [bare]));
    rest = rest.slice(found.index + whole.length);
  }
  return nodes;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(\S.*)$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const isTableRule = (line) => line.includes("-") && line.includes("|") && /^[\s|:-]+$/.test(line);
const isPlain = (line) => line.trim() && ![FENCE, HEADING, RULE, QUOTE, ITEM].some((kind) => kind.test(line));

// Split a text into blocks in one pass over its lines.
export function splitBlocks(text) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let place = 0;
  const take = (kind, holds) => {
    const begin = place;
    place += 1;
    while (place < lines.length && holds(lines[place])) place += 1;
    blocks.push({ kind, lines: lines.slice(begin, place) });
  };
  while (place < lines.length) {
    const line = lines[place];
    const fence = FENCE.exec(line);
    if (!line.trim()) place += 1;
    else if (fence) {
      const begin = (place += 1);
      const ends = (one) => one.trim().startsWith(fence[1]) && !one.trim().replaceAll(fence[1][0], "");
      while (place < lines.length && !ends(lines[place])) place += 1;
      blocks.push({ kind: "code", lines: lines.slice(begin, place), language: fence[2] });
      place += 1;
    } else if (HEADING.test(line)) take("heading", () => false);
    else if (RULE.test(line)) take("rule", () => false);
    else if (QUOTE.test(line)) take("quote", (one) => QUOTE.test(one));
    else if (ITEM.test(line)) take("list", (one) => ITEM.test(one) || (one.trim() && /^\s{2,}/.test(one)));
    else if (line.includes("|") && isTableRule(lines[place + 1] ?? "")) take("table", (one) => one.includes("|"));
    else take("paragraph", isPlain);
  }
  return blocks;
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

function list(lines, depth) {
  const first = ITEM.exec(lines[0]);
  const number = parseInt(first[2], 10);
  const node = make(Number.isNaN(number) ? "ul" : "ol", number > 1 ? { start: number } : {});
  const indent = first[1].length;
  let item = null;
  let inner = [];
  const close = () => {
    if (item && inner.length) {
      const isList = depth < MAX_DEPTH && ITEM.test(inner[0]);
      item.append(...(isList ? [list(inner, depth + 1)] : inline(` ${inner.join(" ").trim()}`)));
    }
    inner = [];
  };
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (found && found[1].length <= indent + 1) {
      close();
      item = make("li", {}, ...inline(found[3]));
      node.append(item);
    } else inner.push(line);
  }
  close();
  return node;
}

function build(block, depth) {
  const { kind, lines } = block;
  if (kind === "code") {
    return make("pre", { class: "code", tabindex: "0" }, make("code", { text: lines.join("\n"), "data-language": block.language }));
  }
  if (kind === "heading") {
    const [, marks, text] = HEADING.exec(lines[0]);
    return make(`h${block.level ?? Math.min(6, marks.length + 1)}`, {}, ...inline(text.replace(/\s+#+\s*$/, "")));
  }
  if (kind === "rule") return make("hr");
  if (kind === "quote") {
    const inside = lines.map((line) => line.replace(QUOTE, "")).join("\n");
    const children = depth < MAX_DEPTH ? splitBlocks(inside).map((one) => build(one, depth + 1)) : [inside];
    return make("blockquote", {}, ...children);
  }
  if (kind === "list") return list(lines, depth);
  if (kind === "table") {
    const head = make("tr", {}, ...cells(lines[0]).map((cell) => make("th", { scope: "col" }, ...inline(cell))));
    const rows = lines.slice(2).map((line) => make("tr", {}, ...cells(line).map((cell) => make("td", {}, ...inline(cell)))));
    return make("div", { class: "table", tabindex: "0" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
  }
  const paragraph = make("p");
  lines.forEach((line, number) => paragraph.append(...(number ? [make("br")] : []), ...inline(line)));
  return paragraph;
}

// Give the headings levels without gaps below the page's own h1, for readers that walk from heading to heading.
function rankHeadings(blocks) {
  let last = 1;
  for (const block of blocks.filter(({ kind }) => kind === "heading")) {
    last = block.level = Math.min(6, HEADING.exec(block.lines[0])[1].length + 1, last + 1);
  }
  return blocks;
}

// Show `text` in `node`.  Blocks that are the same as at the last call keep their elements, so a streamed answer costs
// what its last block costs.
export function renderMarkdown(node, text) {
  const old = node.blocks ?? [];
  const blocks = rankHeadings(splitBlocks(text)).map((block) => ({ block, key: JSON.stringify(block) }));
  let same = 0;
  while (same < blocks.length && same < old.length && old[same] === blocks[same].key) same += 1;
  while (node.childNodes.length > same) node.lastChild.remove();
  for (const { block } of blocks.slice(same)) node.append(build(block, 0));
  node.blocks = blocks.map(({ key }) => key);
}
