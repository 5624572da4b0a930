// Renders long texts with the page's Markdown reader in a small stand-in for a document, and prints, for each text, how
// much longer four times the text takes.  Times below 20 ms count as 20 ms.
import { pathToFileURL } from "node:url";

class Node {
  constructor() { this.children = []; }
  append(...nodes) { for (const node of nodes) this.children.push(node); }
  setAttribute() {}
  get childNodes() { return this.children; }
  get lastChild() { return { remove: () => this.children.pop() }; }
}
globalThis.document = { createElement: () => new Node(), createTextNode: (text) => text };
const { renderMarkdown } = await import(pathToFileURL(process.argv[2]));

const texts = {
  stars: "*a", strong: "**a ", links: "[a](", brackets: "[", code: "`a", marks: "_a", struck: "~~a", urls: "http://", quotes: ">",
  items: "- a\n", nested: "    - a\n", lines: "a\n", rules: "- ", cells: "|a", hashes: "#", fences: "```\n", images: "![",
};
const time = (text) => {
  const begin = performance.now();
  renderMarkdown(new Node(), text);
  return Math.max(performance.now() - begin, 20);
};
const found = {};
for (const [name, text] of Object.entries(texts)) {
  time(text.repeat(5000));
  found[name] = time(text.repeat(40000)) / time(text.repeat(10000));
}
console.log(JSON.stringify(found));
