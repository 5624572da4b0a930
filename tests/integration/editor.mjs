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
const { agent, client } = acp.methods;
const editor = acp
  .client({ name: "editor" })
  .onNotification(client.session.update, ({ params }) => void updates.push(params.update))
  .onRequest(client.session.requestPermission, ({ params }) => ({ outcome: { outcome: "selected", optionId: params.options[0].optionId } }))
  .onRequest(client.elicitation.create, ({ params }) => {
    asked.push(params.message);
    return { action: "accept", content: { name: "Ada" } };
  });
const stream = acp.ndJsonStream(Writable.toWeb(served.stdin), Readable.toWeb(served.stdout));
const stopReason = await editor.connectWith(stream, async (connected) => {
  await connected.request(agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: { elicitation: { form: {} } } });
  const { sessionId } = await connected.request(agent.session.new, { cwd: "/", mcpServers: [] });
  return (await connected.request(agent.session.prompt, { sessionId, prompt: [{ type: "text", text: "q" }] })).stopReason;
});
console.log(JSON.stringify({ asked, updates, stopReason }));
served.stdin.end();
served.on("exit", () => process.exit(0));
