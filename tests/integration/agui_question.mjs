// Drives AG-UI with its own client: a question of an MCP server in the middle of a call, and its answer.
import { createRequire } from "node:module";
const { HttpAgent } = createRequire(process.argv[2])("@ag-ui/client");
const agent = new HttpAgent({ url: process.argv[3], threadId: "t", initialMessages: [{ id: "1", role: "user", content: "q" }] });

async function run(parameters) {
  let outcome;
  await agent.runAgent(parameters, { onRunFinishedEvent: ({ event }) => { outcome = event.outcome; } });
  return outcome;
}

const [{ id, message }] = (await run({})).interrupts;
const outcome = await run({ resume: [{ interruptId: id, status: "resolved", payload: { name: "Ada" } }] });
console.log(JSON.stringify({ message, outcome, last: agent.messages.at(-1)?.content }));
