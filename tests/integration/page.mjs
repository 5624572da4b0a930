// Drives the page in a headless browser.  Each check prints a line of JSON; the test reads them.
import { spawn } from "node:child_process";
import { given, launch, openContext, report, requirePackage } from "./page_browser.mjs";

const [base, ...serverCommand] = given;
const axePath = requirePackage.resolve("axe-core/axe.min.js");

let server;
async function startServer() {
  server = spawn(serverCommand[0], serverCommand.slice(1), { stdio: ["ignore", "inherit", "inherit"] });
  for (;;) {
    try {
      await fetch(base);
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

async function kill() {
  const ended = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGKILL");
  await ended;
}

await startServer();
const browser = await launch();
try {
  const context = await openContext(browser, { viewport: { width: 1200, height: 900 } });
  // axe is added by the debugging protocol: the policy of the page admits no script of anyone else
  const page = await context.newPage();
  const problems = [];
  const foreign = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("request", (request) => !request.url().startsWith(base) && !request.url().startsWith("data:") && foreign.push(request.url()));
  const send = async (text) => {
    await page.fill("#composer-text", text);
    await page.keyboard.press("Enter");
  };
  const ended = () => page.waitForFunction(() => !document.querySelector("#main").classList.contains("running") && document.querySelector(".figures"));
  const lastReply = () => page.locator(".reply").last();
  const axe = async (name) => {
    const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    report(`axe ${name}`, found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`));
  };
  const addAxe = async () => {
    const session = await context.newCDPSession(page);
    await session.send("Runtime.evaluate", { expression: (await import("node:fs")).readFileSync(axePath, "utf8") });
  };

  await page.goto(`${base}/?token=token`);
  await page.waitForSelector(".welcome");
  await addAxe();
  await axe("welcome");

  // a run with a failed call and a hostile answer
  await send("What is the price of tea?");
  await ended();
  report("answer", await lastReply().locator(".markdown strong").first().textContent());
  report("calls", await lastReply().locator(".call > summary").allTextContents());
  report("hacked", await page.evaluate(() => window.hacked ?? null));
  report("links", await lastReply().locator(".markdown a").evaluateAll((links) => links.map((link) => link.getAttribute("href"))));
  report("elements", await lastReply().locator(".markdown script, .markdown img, .markdown svg").count());
  report("shown", (await lastReply().locator(".markdown").innerText()).includes('<img src=x onerror="window.hacked = 1">'));
  await lastReply().locator(".call > summary").first().click();
  await axe("answer");

  // raw request
  await lastReply().locator("button[aria-label^='Show request']").last().click();
  await page.waitForFunction(() => document.querySelector("#raw-text").textContent.includes("messages"));
  report("raw", JSON.parse(await page.locator("#raw-text").textContent()).messages.map((message) => message.role));
  await page.keyboard.press("Escape");

  // a plan
  await send("Go by steps");
  await ended();
  report("plan", [await lastReply().locator(".plan").count(), await lastReply().locator(".plan li").allInnerTexts(), await lastReply().locator(".label", { hasText: "Plan" }).textContent()]);

  // type ahead through a pause: nothing is decided, and the text stays where it was typed
  await send("Please refund Ada twice");
  for (const letter of "and now yes, it is all right to go on \n\n ") {
    if (letter === "\n") await page.keyboard.press("Shift+Enter");
    else await page.keyboard.type(letter);
    await page.waitForTimeout(60);
  }
  await page.waitForSelector(".pending");
  report("typed ahead", [await page.locator(".pending h2").count(), await page.inputValue("#composer-text"), await page.evaluate(() => document.activeElement.id)]);
  await page.locator(".pending button", { hasText: "Allow" }).first().focus();
  await page.keyboard.press("Enter"); // within a second of the last key
  await page.keyboard.press(" ");
  report("pressed early", await page.locator(".pending h2").count());
  await page.fill("#composer-text", "");

  // decide with the keyboard: two calls, the second after a second without a key
  const isQuiet = () => page.waitForFunction(() => document.querySelector(".decision[aria-disabled='false']"));
  await page.locator(".pending button", { hasText: "Refuse" }).first().focus();
  await axe("approval");
  await isQuiet();
  await page.keyboard.press("Enter");
  report("next heading", await page.evaluate(() => document.activeElement.textContent));
  await page.locator(".pending button", { hasText: "Allow" }).first().focus();
  await page.keyboard.press("Enter");
  report("pressed with the key of the other", await page.locator(".pending h2").count());
  await isQuiet();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => [...document.querySelectorAll(".reply")].at(-1).innerText.includes("It is done"));
  await ended();
  report("approved", (await lastReply().locator(".markdown").innerText()).trim());

  // a call whose arguments refer to what others wrote: the person sees both, as text
  report("references", await page.evaluate(async () => {
    const { buildInputs } = await import("/assets/inputs.js");
    const own = { tool: "pay", arguments: '{"to": "DE1"}', written: '{"to": "{#1.iban}"}', references: ["#1.iban, text of others: <b>DE1</b>"] };
    const section = buildInputs([{ id: "1", reason: "agentkit:approval", metadata: { agentkit: own } }], () => {});
    return [...section.querySelectorAll("pre")].map((pre) => [pre.className, pre.textContent, pre.childElementCount]);
  }));

  // large numbers keep their digits, also beside an edit, and characters that turn others around are escaped
  report("digits", await page.evaluate(async () => {
    const { buildInputs } = await import("/assets/inputs.js");
    const own = { tool: "pay", arguments: '{"to": 1234567890123456789, "host": "a\u202egro.b\u200b"}' };
    let sent = null;
    const section = buildInputs([{ id: "1", reason: "agentkit:approval", metadata: { agentkit: own } }], (entries) => { sent = JSON.stringify(entries[0].payload); });
    document.body.append(section);
    const shown = section.querySelector("pre").textContent;
    const edit = section.querySelector("textarea");
    edit.value = edit.value.replace("gro", "org");
    const allow = section.querySelector(".decision");
    while (allow.getAttribute("aria-disabled") === "true") await new Promise((resolve) => setTimeout(resolve, 50));
    allow.click();
    section.remove();
    return [shown, sent];
  }));

  // a question
  await send("book a room");
  await page.locator(".question input").fill("3");
  await page.waitForTimeout(1000); // an answer counts one second after its question appeared
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => [...document.querySelectorAll(".reply")].at(-1).innerText.includes("3 nights"));
  await ended();
  report("question", (await lastReply().locator(".markdown").innerText()).trim());
  const asked = page.locator(".reply li:has(> .call)", { hasText: "book" });
  report("call that asked", [await asked.count(), await asked.getAttribute("class"), await asked.locator("pre").last().textContent(), await page.locator(".reply:has(.call)", { hasText: "book" }).locator(".work-title").textContent()]);

  // an agent inside a tool
  await send("ask the clerk");
  await ended();
  await page.waitForFunction(() => [...document.querySelectorAll(".reply")].at(-1).innerText.includes("It is done"));
  report("nested", await lastReply().locator(".call .call > summary code").allTextContents());

  // an attachment
  const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await page.setInputFiles("#files", { name: "dot.png", mimeType: "image/png", buffer: pixel });

  // a message that the server refuses, and one that does not reach it, stay in the box
  const kept = async () => [await page.inputValue("#composer-text"), await page.locator("#attachments li").count()];
  await page.route("**/agui", (route) => route.fulfill({ status: 422, json: { error: "not this one" } }), { times: 1 });
  await send("look at this");
  await page.waitForFunction(() => document.querySelector("#notice").innerText === "not this one");
  report("refused", await kept());
  await page.route("**/agui", (route) => route.abort(), { times: 1 });
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#notice").innerText.includes("connection"));
  await page.waitForFunction(() => document.querySelector("#notice").hidden);
  report("lost", await kept());
  problems.splice(0, problems.length, ...problems.filter((text) => !/422|ERR_FAILED/.test(text)));
  await page.keyboard.press("Enter");
  await page.waitForSelector(".query img");
  await page.waitForFunction(() => [...document.querySelectorAll(".reply")].at(-1).innerText.includes("You wrote"));
  await ended();
  report("attachment", await page.locator(".query img").evaluate((image) => image.naturalWidth));

  // an image of a tool
  await send("draw a pixel");
  await ended();
  await page.waitForFunction(() => document.querySelector(".call-body img")?.naturalWidth);
  report("drawn", await page.locator(".call-body img").evaluate((image) => [image.naturalWidth, image.alt]));

  // stop
  await send("work for a while");
  await page.waitForSelector(".call:has-text('work')");
  await page.click("#stop");
  await page.waitForFunction(() => document.body.innerText.includes("The run was stopped."));
  report("stopped", await lastReply().locator(".work-title").textContent());
  await ended(); // until then nothing is sent

  // reload in the middle
  await send("work again");
  await page.waitForFunction(() => [...document.querySelectorAll(".reply")].at(-1).querySelector(".busy .call"));
  await page.reload();
  await page.waitForFunction(() => document.querySelector("#main").classList.contains("running"));
  await page.waitForFunction(() => [...document.querySelectorAll(".reply")].at(-1)?.innerText.includes("It is done: worked"));
  await ended();
  report("reloaded", await page.locator(".query").count());

  // kill -9 of the server in the middle, and on from the journal on the same page
  await send("work until the crash");
  await page.waitForFunction(() => [...document.querySelectorAll(".reply")].at(-1).querySelector(".busy .call"));
  await kill();
  await page.waitForFunction(() => document.querySelector("#notice").innerText.includes("Trying again"));
  await startServer();
  await page.click("#notice button");
  await page.waitForFunction(() => [...document.querySelectorAll(".reply")].at(-1).innerText.includes("It is done"));
  await ended();
  report("continued", [await page.locator(".query").count(), (await lastReply().locator(".markdown").innerText()).trim()]);

  // several conversations, and a replay of a stored run
  await page.click("#new-thread");
  await page.waitForSelector(".welcome");
  await send("hello");
  await ended();
  await page.waitForFunction(() => document.querySelectorAll("#thread-list li").length === 2);
  report("conversations", await page.locator("#thread-list a").allTextContents());
  await page.locator("#run-list a", { hasText: "What is the price of tea?" }).click();
  await page.waitForSelector("#scrubber:not([hidden])");
  await page.waitForFunction(() => document.querySelector(".markdown strong"));
  const last = Number(await page.locator("#place").getAttribute("max"));
  const counts = [];
  for (const place of [0, 3, 9, last]) {
    await page.locator("#place").evaluate((input, value) => {
      input.value = value;
      input.dispatchEvent(new Event("input"));
    }, place);
    counts.push([await page.locator(".call").count(), await page.locator(".markdown").count()]);
  }
  report("scrubbed", counts);
  await page.locator("#place").focus();
  await page.keyboard.press("Home");
  report("scrubbed by key", await page.locator(".reply").count());
  await page.click("#play");
  await page.waitForFunction((end) => document.querySelector("#place").value === String(end), last);
  await addAxe();
  await axe("replay");

  // compare two runs
  await page.click("#compare");
  await page.locator(".choice").nth(0).check();
  await page.locator(".choice").nth(3).click(); // the list is drawn anew: its state cannot be checked
  await page.waitForSelector(".comparison");
  report("compared", await page.locator(".comparison tbody td:last-child").allTextContents());
  await axe("comparison");

  // narrow and dark
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 400, height: 800 });
  await page.click("#open-side");
  await page.locator("#thread-list a").last().click();
  await page.waitForSelector(".markdown strong");
  report("overflow", await page.evaluate(() => document.documentElement.scrollWidth - innerWidth));
  await axe("narrow and dark");
  await page.evaluate(() => (location.hash = "#/thread/%zz")); // as a person may type it
  await page.waitForSelector(".markdown strong", { state: "detached" });
  report("problems", problems.filter((text) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|Failed to fetch|ERR_EMPTY|ERR_CONNECTION_RESET|network error/.test(text)));
  report("foreign", foreign);
} finally {
  await browser.close();
  server.kill();
}
