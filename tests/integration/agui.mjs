// Drives AG-UI with its own client: a paused run, its answer, an agent inside a tool, a question, a tool of the client,
// a failed run.
import { createRequire } from "node:module";
const { HttpAgent } = createRequire(process.argv[2])("@ag-ui/client");
const url = process.argv[3];

async function run(agent, parameters) {
  const seen = [];
  let outcome;
  let failure = "";
  const watch = {
    onEvent: ({ event }) => { seen.push(event.type); },
    onRunFinishedEvent: ({ event }) => { outcome = event.outcome; },
    onRunErrorEvent: ({ event }) => { failure = event.message; },
  };
  await agent.runAgent(parameters, watch).catch((error) => { failure ||= error.message; });
  return { seen, outcome, failure, last: agent.messages.at(-1)?.content };
}

const say = (threadId, content) => new HttpAgent({ url, threadId, initialMessages: [{ id: "1", role: "user", content }] });
const found = {};

const buyer = say("buyer", "refund Ada");
found.paused = await run(buyer, {});
const id = found.paused.outcome.interrupts[0].id;
found.resumed = await run(buyer, { resume: [{ interruptId: id, status: "resolved", payload: { approved: true } }] });
found.tools = buyer.messages.filter((message) => message.role === "tool").map((message) => message.content);
found.nested = await run(say("nested", "ask the clerk"), {});
found.consulted = await run(say("consulted", "consult someone"), {});
const guest = say("guest", "book a room");
found.question = await run(guest, {});
const asked = found.question.outcome.interrupts[0];
found.answered = await run(guest, { resume: [{ interruptId: asked.id, status: "resolved", payload: 2 }] });
const tools = [{
  name: "show_map",
  description: "Show a place on the map.",
  parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] },
}];
const context = [{ description: "The page", value: "order 7" }];
const traveller = say("traveller", "show the map");
found.mapped = await run(traveller, { tools, context });
const [shown] = traveller.messages.flatMap((message) => message.toolCalls ?? []);
found.place = JSON.parse(shown.function.arguments).place;
traveller.addMessage({ id: "map-1", role: "tool", toolCallId: shown.id, content: "Rome is on the map" });
found.seen = await run(traveller, { tools, context });
found.travelled = traveller.messages.map((message) => message.role);
found.failed = await run(say("failed", "fail"), {});
console.log(JSON.stringify(found));
