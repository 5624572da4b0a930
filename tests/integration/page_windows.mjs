// Drives two windows: they decide about a call at the same time, leave a run that works, and delete a conversation.
import { given, launch, openContext, report } from "./page_browser.mjs";

const [base] = given;
const browser = await launch();
try {
  const context = await openContext(browser, { viewport: { width: 1200, height: 900 } });
  const problems = [];
  const open = async (hash) => {
    const page = await context.newPage();
    page.on("pageerror", (error) => problems.push(error.message));
    await page.goto(`${base}/?token=token${hash}`);
    return page;
  };
  const first = await open("");
  await first.fill("#composer-text", "Please refund Ada slowly");
  await first.keyboard.press("Enter");
  await first.waitForSelector(".pending");
  const second = await open(await first.evaluate(() => location.hash));
  for (const page of [first, second]) await page.waitForSelector(".decision[aria-disabled='false']");
  const press = (page, wanted) => page.evaluate((text) => [...document.querySelectorAll(".decision")].find((one) => one.textContent === text).click(), wanted); // one window is in the background
  await Promise.all([press(first, "Allow"), press(second, "Refuse")]);
  for (const page of [first, second]) {
    await page.waitForFunction(() => document.querySelectorAll(".reply").length === 2 && !document.querySelector("#main").classList.contains("running"));
  }
  await Promise.any([first, second].map((page) => page.waitForFunction(() => document.querySelector("#notice").innerText)));
  report("answers", await Promise.all([first, second].map((page) => page.locator(".texts").last().innerText())));
  report("notices", await Promise.all([first, second].map((page) => page.locator("#notice").innerText())));

  // a window that shows something else, and one in the background, holds no connection; the run works on
  const ask = async (page, text) => {
    const [stream] = await Promise.all([page.waitForRequest("**/agui"), page.fill("#composer-text", text).then(() => page.keyboard.press("Enter"))]);
    await page.locator(".call > summary", { hasText: "work" }).last().waitFor({ state: "attached" });
    return stream;
  };
  const isOver = (page, stream) => Promise.race(["requestfailed", "requestfinished"].map((name) => page.waitForEvent(name, (one) => one === stream)));
  const working = (page) => page.evaluate(async () => (await (await fetch("threads?token=token")).json()).filter((thread) => thread.running).map((thread) => thread.title));
  await first.bringToFront();
  await first.click("#new-thread");
  await first.waitForSelector(".welcome");
  let stream = await ask(first, "work alone");
  await Promise.all([isOver(first, stream), first.click("#new-thread")]);
  report("left", await working(first));
  await first.waitForSelector(".welcome");
  stream = await ask(first, "work behind");
  const show = (isShown) => first.evaluate((hidden) => { Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden }); document.dispatchEvent(new Event("visibilitychange")); }, !isShown);
  await Promise.all([isOver(first, stream), show(false)]);
  report("in the background", (await working(first)).includes("work behind"));
  await show(true);
  await first.waitForFunction(() => document.querySelector(".texts")?.innerText === "It is done: worked");
  report("shown again", await first.locator(".query").allInnerTexts());

  // the other window deletes the conversation that the first one shows
  await second.bringToFront();
  second.once("dialog", (dialog) => dialog.accept());
  await second.locator("#thread-list button[aria-label='Delete: work behind']").click();
  await first.bringToFront();
  await first.waitForFunction(() => document.querySelector("#notice").innerText);
  report("deleted", [await first.locator("#notice").innerText(), await first.locator("#title").textContent(), await first.locator(".query").count()]);

  // a button says that the server cannot be reached
  await first.route("**/threads/**", (route) => route.request().method() === "DELETE" ? route.abort() : route.fallback());
  first.once("dialog", (dialog) => dialog.accept());
  await first.locator("#thread-list button[aria-label^='Delete: Please refund']").click();
  await first.waitForFunction(() => document.querySelector("#notice").innerText.includes("reached"));
  report("unreachable", await first.locator("#notice").innerText());
  report("problems", problems);
} finally {
  await browser.close();
}
