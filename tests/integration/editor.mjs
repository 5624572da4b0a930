// An editor over the TypeScript SDK of the Agent Client Protocol: `node editor.mjs PROGRAM ARGUMENTS...` starts the agent,
// sends one prompt, answers forms with {"name": "Ada"}, and prints what it was asked and shown as JSON.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const find = createRequire(`${process.env.MODULES}/`).resolve;
const acp = await import(pathToFileURL(find("@agentclientprotocol/sdk")));
const [program, ...words] = process.argv.slice(2);
const served = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
const asked = [];
const updates = [];
const client = {
  requestPermission: async ({ options }) => ({ outcome: { outcome: "selected", optionId: options[0].optionId } }),
  sessionUpdate: async ({ update }) => void updates.push(update),
  createElicitation: async ({ message }) => {
    asked.push(message);
    return { action: "accept", content: { name: "Ada" } };
  },
};
const stream = acp.ndJsonStream(Writable.toWeb(served.stdin), Readable.toWeb(served.stdout));
const agent = new acp.ClientSideConnection(() => client, stream);
await agent.initialize({ protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: { elicitation: { form: {} } } });
const { sessionId } = await agent.newSession({ cwd: "/", mcpServers: [] });
const { stopReason } = await agent.prompt({ sessionId, prompt: [{ type: "text", text: "q" }] });
console.log(JSON.stringify({ asked, updates, stopReason }));
served.stdin.end();
served.on("exit", () => process.exit(0));
