// Draws trees of Markdown from standard input in a small stand-in for a document, and prints, for each, its elements
// with their attributes, and its texts.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

class Node {
  constructor(name) { Object.assign(this, { name, attributes: {}, nodes: [], style: {} }); }
  append(...nodes) { this.nodes.push(...nodes); }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name) { this.attributes[`on${name}`] = true; }
  set className(value) { this.attributes.class = value; }
  set textContent(value) { this.nodes = [value]; }
}
globalThis.document = { createElement: (name) => new Node(name), createTextNode: (text) => text };
const { drawNodes } = await import(pathToFileURL(process.argv[2]));

function list(node) {
  if (typeof node === "string") return { elements: [], texts: [node] };
  const inner = node.nodes.map(list);
  const own = [node.name, { ...node.attributes, ...node.style }];
  return { elements: [own, ...inner.flatMap(({ elements }) => elements)], texts: inner.flatMap(({ texts }) => texts) };
}
const trees = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(trees.map((nodes) => list({ name: "div", attributes: {}, nodes: drawNodes(nodes, {}) }))));
