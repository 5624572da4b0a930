// Drives the page through a long answer in many pieces: how often it is laid out, and what a person who reads keeps.
import { given, launch, openContext, report } from "./page_browser.mjs";

const [base] = given;
const browser = await launch();
try {
  const page = await (await openContext(browser, { viewport: { width: 1200, height: 900 } })).newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  const debug = await page.context().newCDPSession(page);
  await debug.send("Performance.enable");
  const layouts = async () => (await debug.send("Performance.getMetrics")).metrics.find(({ name }) => name === "LayoutCount").value;
  const below = () => page.evaluate(() => { const view = document.querySelector("#view"); return view.scrollHeight - view.scrollTop - view.clientHeight; });
  const ask = async () => {
    await page.fill("#composer-text", "a long story");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector("#main").classList.contains("running"));
  };
  const ended = () => page.waitForFunction(() => !document.querySelector("#main").classList.contains("running"), undefined, { polling: 500 });

  await page.goto(`${base}/?token=token`);
  await page.waitForSelector(".welcome");
  const before = await layouts();
  await ask();
  await ended();
  report("layouts", (await layouts()) - before);
  report("paragraphs", await page.locator(".texts p").count());
  report("below", await below());

  // a person who scrolls up stays there; the next question shows the end again
  await ask();
  await page.waitForFunction(() => document.querySelectorAll(".reply").length === 2);
  await page.evaluate(() => document.querySelector("#view").scrollTo({ top: 100 }));
  await ended();
  report("reading", await page.evaluate(() => document.querySelector("#view").scrollTop));
  await ask();
  await ended();
  report("below again", await below());
  report("problems", problems);
} finally {
  await browser.close();
}
