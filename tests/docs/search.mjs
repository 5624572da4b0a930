// Search the built documentation as its page does: `node search.mjs FOLDER QUERY...` prints the places found, as JSON.
import { readFileSync, readdirSync } from "node:fs";

const [folder, ...queries] = process.argv.slice(2);
const scripts = `${folder}/assets/javascripts/workers`;
const worker = readdirSync(scripts).find((name) => /^search.*\.js$/.test(name));
const index = JSON.parse(readFileSync(`${folder}/search.json`));
const found = {};

const ask = (query) => self.onmessage({ data: { type: 2, data: { input: query, filter: { input: [], values: [] } } } });

globalThis.self = {
  postMessage(message) {
    const done = Object.keys(found).length;
    if (message.type === 3) found[queries[done]] = message.data.items.map((item) => index.items[item.id].location);
    const next = queries[Object.keys(found).length];
    if (next === undefined) console.log(JSON.stringify(found));
    else setImmediate(ask, next);
  },
};
(0, eval)(readFileSync(`${scripts}/${worker}`, "utf8"));
self.onmessage({ data: { type: 0, data: index } });
