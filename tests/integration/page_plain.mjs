// Drives the page of a server without a journal, over plain http from the name of another machine: no secure context.
import { given, launch, openContext, report } from "./page_browser.mjs";

const [base, behind] = given;
const browser = await launch(`--host-resolver-rules=MAP ${new URL(base).hostname} 127.0.0.1`);
try {
  const page = await (await openContext(browser, { viewport: { width: 1200, height: 900 } })).newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  const send = async (text) => {
    await page.fill("#composer-text", text);
    await page.keyboard.press("Enter");
  };
  const says = (text) => page.waitForFunction((wanted) => [...document.querySelectorAll(".reply")].at(-1)?.innerText.includes(wanted), text);

  await page.goto(`${base}/?token=token`);
  await page.waitForSelector(".welcome");
  report("secure", await page.evaluate(() => window.isSecureContext));

  // a run that failed is tried again
  await send("stumble over coffee");
  await page.waitForSelector("#notice button");
  report("failed", [await page.locator("#notice").innerText(), await page.locator(".call").count()]);
  await page.click("#notice button");
  await says("It is done: 4.25");
  report("tried again", [await page.locator(".query").count(), await page.locator(".call").count(), await page.locator("#notice").isVisible()]);
  await page.locator("button[aria-label='Copy the answer']").click();
  await page.locator("button", { hasText: "Copied" }).waitFor();
  await page.focus("#composer-text");
  await page.keyboard.press("Control+V");
  report("pasted", await page.inputValue("#composer-text"));

  // a window in the background, with the focus in its list
  const other = await page.context().newPage();
  await other.clock.install();
  await other.addInitScript(() => Object.defineProperty(document, "hidden", { get: () => true }));
  await other.goto(`${base}/?token=token`);
  await other.locator("#thread-list a").focus();
  const focused = () => other.evaluate(() => document.activeElement.textContent);
  const before = [await other.title(), await focused()];

  // what waits is found from another conversation
  await page.click("#new-thread");
  await page.waitForSelector(".welcome");
  await send("Please refund Ada");
  await page.waitForSelector(".pending");
  await other.clock.fastForward(10000);
  await other.waitForSelector("#inbox a");
  report("in the background", [...before, await other.title(), await focused()]);
  await other.close();
  await page.click("#new-thread");
  await page.waitForSelector("#inbox a");
  report("inbox", [await page.title(), await page.locator("#inbox a").allTextContents()]);
  await page.click("#inbox a");
  const allow = async () => {
    await page.waitForSelector(".decision[aria-disabled='false']");
    await page.locator(".pending button", { hasText: "Allow" }).click();
  };
  const allowWith = async (text) => {
    await page.locator(".pending summary").click();
    await page.locator(".pending textarea").fill(text);
    await allow();
  };
  // what the server refuses is asked again, and so are arguments that do not fit, with the reason
  await allowWith("[1]");
  await page.waitForFunction(() => document.querySelector("#notice").innerText.includes("must be an object"));
  await page.locator(".decision").first().waitFor();
  report("asked again", [await page.locator("#notice").innerText(), await page.locator(".decision").allTextContents()]);
  await allowWith('{"customer": "Ada"}');
  report("why again", await page.locator(".pending-item > .problem").innerText());
  await allow();
  await says("It is done: 4.0 euros went to Ada");
  await page.waitForFunction(() => document.querySelector("#inbox").hidden);
  report("inbox after the decision", await page.title());

  // behind a sign-in with a password, which the browser sends as Authorization
  const signed = await openContext(browser, { httpCredentials: { username: "ada", password: "secret" } });
  const inside = await signed.newPage();
  await inside.goto(behind);
  await inside.waitForSelector(".welcome");
  await inside.fill("#composer-text", "hello");
  await inside.keyboard.press("Enter");
  await inside.waitForFunction(() => document.querySelector(".reply")?.innerText.includes("You wrote 5 characters."));
  await inside.waitForSelector("#thread-list a");
  report("behind a sign-in", [await inside.locator("#notice").isVisible(), await inside.locator("#thread-list a").allTextContents()]);
  report("problems", problems);
} finally {
  await browser.close();
}
