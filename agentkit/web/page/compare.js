// Two runs side by side, and what differs in their calls and answers.

import { formatSeconds, formatUsage, make } from "./dom.js";
import { RunView } from "./run_view.js";

// Pair the calls of two runs by the longest common sequence of their names.
export function pairCalls(left, right) {
  const best = Array.from({ length: left.length + 1 }, () => new Array(right.length + 1).fill(0));
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      best[i][j] = left[i].name === right[j].name ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  }
  const pairs = [];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i].name === right[j].name) pairs.push([left[i++], right[j++]]);
    else if (j >= right.length || (i < left.length && best[i + 1][j] >= best[i][j + 1])) pairs.push([left[i++], null]);
    else pairs.push([null, right[j++]]);
  }
  return pairs;
}

function judge(left, right) {
  if (!left) return "only on the right";
  if (!right) return "only on the left";
  if (left.arguments !== right.arguments) return "other arguments";
  if (left.content !== right.content) return "other result";
  return "the same";
}

export function showComparison(node, left, right, showRequest) {
  const views = [left, right].map((run) => {
    const column = make("section", { class: "view column", "aria-label": `Run ${run.id}` });
    const view = new RunView(column, { showRequest: (_, number) => showRequest(run.id, number) });
    for (const event of run.events) view.apply(event);
    view.flush();
    column.prepend(make("p", { class: "hint", text: `${run.id} · ${run.model} · ${run.state}` }));
    return { column, view };
  });
  const rows = pairCalls(views[0].view.calls, views[1].view.calls).map(([one, other]) => {
    const text = judge(one, other);
    const cell = (call) => make("td", {}, call ? make("code", { text: call.name }) : "–", call && !(one && other) ? make("code", { class: "brief", text: call.arguments }) : null, call ? make("span", { class: "hint", text: ` ${formatSeconds(call.seconds)}` }) : null);
    return make("tr", { class: text === "the same" ? "" : "differs" }, cell(one), cell(other), make("td", { text }));
  });
  const usage = make("tr", {}, ...[left, right].map((run) => make("td", { text: formatUsage(run.usage) })), make("td", { text: "usage" }));
  const head = make("tr", {}, ...["Left", "Right", "Difference"].map((text) => make("th", { scope: "col", text })));
  const table = make("div", { class: "table", tabindex: "0" }, make("table", { class: "comparison" }, make("caption", { text: "Calls of the two runs" }), make("thead", {}, head), make("tbody", {}, ...rows, usage)));
  node.replaceChildren(table, make("div", { class: "columns" }, views[0].column, views[1].column));
}
