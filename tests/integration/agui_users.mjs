// Two users with the client of AG-UI, on two processes that have one journal.  Prints what each of them got.
import { createRequire } from "node:module";

const [, , modules, ...addresses] = process.argv;
const { HttpAgent } = createRequire(modules)("@ag-ui/client");

async function run(user, place, input) {
  const agent = new HttpAgent({ url: addresses[place], threadId: "one", headers: user ? { "x-user": user } : {} });
  const found = { interrupts: [], result: null, failure: "" };
  if (input.text) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: input.text });
  try {
    await agent.runAgent(input.resume ? { resume: input.resume } : {}, {
      onRunFinishedEvent: ({ event }) => {
        found.interrupts = event.outcome?.interrupts ?? [];
        found.result = event.result ?? null;
      },
      onRunErrorEvent: ({ event }) => {
        found.failure = event.message;
      },
    });
  } catch (error) {
    found.failure = String(error.message ?? error);
  }
  return found;
}

const approve = (interrupts) => interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved: true } }));
const found = {};
const ada = await run("ada", 0, { text: "refund Ada" });
const resume = approve(ada.interrupts);
found.stolen = await run("eve", 1, { resume });
found.nobody = await run("", 1, { resume });
found.eve = await run("eve", 1, { text: "hello" });
found.approved = await run("ada", 1, { resume }); // the process that did not ask
found.late = await run("ada", 0, { resume });
found.next = await run("ada", 0, { text: "hello" });
const both = await Promise.all([0, 1].map((place) => run("ada", place, { text: "work" })));
found.both = both.map(({ result, failure }) => (result ? "ran" : failure));
console.log(JSON.stringify(found));
