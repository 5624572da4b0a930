// Drives the page in two windows on a journal that other processes left and continue.  Each check prints a line of JSON.
import { given, launch, openContext, report } from "./page_browser.mjs";

const [base] = given;
const browser = await launch();
try {
  const context = await openContext(browser, { viewport: { width: 1200, height: 900 } });
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  const lastReply = (where) => where.locator(".reply").last();
  const says = (where, text) => where.waitForFunction((wanted) => [...document.querySelectorAll(".reply")].at(-1)?.innerText.includes(wanted), text);
  const openRun = async (query) => {
    await page.locator("#run-list a", { hasText: query }).first().click();
    await page.waitForFunction((wanted) => document.querySelector("#title").textContent.includes(wanted), query);
    await page.waitForSelector(".call", { state: "attached" });
  };
  const calls = () => page.locator(".call > summary .hint").allTextContents();
  const dots = () => page.locator(".reply li:has(> .call)").evaluateAll((items) => items.map((item) => item.className));
  const decide = async (where, name) => {
    await where.waitForSelector(".decision[aria-disabled='false']");
    await where.locator(".pending button", { hasText: name }).first().click();
  };

  await page.goto(`${base}/?token=token`);
  await page.waitForSelector("#run-list a");

  // the inbox, the figures of the list, and its filter
  await page.waitForSelector("#inbox a");
  report("inbox", [await page.title(), await page.locator("#inbox-title").textContent(), await page.locator("#inbox a").allTextContents()]);
  report("list", (await page.locator("#run-list .hint").allTextContents()).map((text) => text.split(" · ")[0]));
  await page.fill("#filter", "REFUND waits for");
  report("filtered", await page.locator("#run-list a").allTextContents());
  await page.fill("#filter", "");

  // what other processes left: a refused call, a stopped run, a killed one, and one that waits
  await openRun("refund that was refused");
  report("refused", [await calls(), await dots(), await page.locator("#notice").isVisible()]);
  for (const left of ["stopped", "killed"]) {
    await openRun(`work that is ${left}`);
    report(left, [await lastReply(page).locator(".work-title").textContent(), await calls(), await page.locator("#notice button").textContent()]);
    await page.locator("#notice button").click();
    await says(page, "It is done");
    await page.waitForFunction(() => !document.querySelector("#main").classList.contains("running"));
    report(`${left}, continued`, [await page.locator("#notice").isVisible(), await page.locator("#stop").isVisible()]);
  }
  await openRun("refund that waits");
  await page.waitForSelector(".pending");
  report("waits", [await page.locator("#status").textContent(), await calls(), await dots(), await page.locator(".pending button").first().textContent()]);
  await page.reload();
  await page.waitForSelector(".pending");
  report("waits after a reload", await page.locator("#status").textContent());
  await decide(page, "Allow");
  await says(page, "It is done: 4.0 euros went to Ada");
  await page.waitForFunction(() => document.querySelector("#inbox").hidden);
  report("inbox after the decision", await page.title());
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await lastReply(page).locator("button[aria-label='Copy the answer']").click();
  await page.waitForFunction(() => [...document.querySelectorAll("button.link")].some((button) => button.textContent === "Copied"));
  report("copied", await page.evaluate(() => navigator.clipboard.readText()));
  const steps = lastReply(page).locator(".call").last();
  await steps.locator("summary").first().evaluate((line) => line.closest("details.work").setAttribute("open", ""));
  await steps.locator("summary").first().click();
  const copied = [];
  for (const what of ["arguments", "result"]) {
    await steps.locator(`button[aria-label='Copy the ${what}']`).click();
    await steps.locator("button", { hasText: "Copied" }).first().waitFor();
    copied.push(await page.evaluate(() => navigator.clipboard.readText()));
    await steps.locator("button", { hasText: "Copied" }).first().waitFor({ state: "detached" });
  }
  report("copied of a call", copied);
  report("continues", page.url().includes("#/thread/run%3A"));

  // a run that failed is tried again: its finished call is not repeated, and the list has its time and its cost
  await page.click("#new-thread");
  await page.waitForSelector(".welcome");
  await page.fill("#composer-text", "stumble over coffee");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#notice button");
  report("failed", [await page.locator("#notice").innerText(), await lastReply(page).locator(".problem").innerText(), await page.locator(".call").count()]);
  await page.click("#notice button");
  await says(page, "It is done: 4.25");
  await page.waitForFunction(() => !document.querySelector("#main").classList.contains("running"));
  report("tried again", [await page.locator(".query").count(), await page.locator(".call").count(), await page.locator("#notice").isVisible()]);
  const figures = page.locator("#run-list li", { hasText: "stumble over coffee" }).locator(".hint");
  await page.waitForFunction(() => document.querySelector("#run-list .hint").textContent.includes("finished"));
  report("figures", (await figures.textContent()).split(" · "));

  // the report of a run stands in the page, and in a window: its timeline and its script pass both policies
  await openRun("stumble over coffee");
  const refusals = [];
  const isRefusal = (message) => message.type() === "error" && refusals.push(message.text());
  page.on("console", isRefusal);
  await page.click("#report");
  const frame = page.frameLocator("#report-frame");
  await frame.locator(".zoom input").fill("3");
  const shown = () => page.evaluate(() => [document.getElementById("view").hidden, document.getElementById("report-frame").hidden]);
  report("report in the page", [await frame.locator(".bar.tool").count(), await frame.locator(".scale span").count(), await page.getAttribute("#report", "aria-pressed"), await shown(), refusals]);
  const inside = page.frames().find((one) => one.url().includes("/report"));
  report("report cannot reach the page", await inside.evaluate(() => { try { return String(parent.document.title); } catch (error) { return error.name; } }));
  page.off("console", isRefusal);
  await page.click("#report");
  report("steps again", await shown());
  const [sheet] = await Promise.all([context.waitForEvent("page"), page.click("#report-window")]);
  sheet.on("console", (message) => message.type() === "error" && refusals.push(message.text()));
  await sheet.waitForLoadState();
  await sheet.reload();
  await sheet.locator(".zoom input").fill("3");
  report("report", [await sheet.locator(".bar.tool").count(), await sheet.locator(".scale span").count(), await sheet.locator(".bar").first().evaluate((bar) => getComputedStyle(bar).position), refusals]);
  await sheet.close();

  // two runs with other calls, chosen beside a conversation: the arguments of each stand in the table
  await page.locator("#thread-list a", { hasText: "stumble over coffee" }).click();
  await page.waitForFunction(() => document.querySelector("#title").textContent === "stumble over coffee" && document.querySelector(".query"));
  await page.click("#compare");
  await page.getByLabel("Compare: stumble over coffee").check();
  await page.getByLabel("Compare: refund that was refused").click(); // the list is drawn anew
  await page.waitForSelector(".comparison");
  await page.locator(".choice").first().waitFor({ state: "hidden" }); // the lists are read again
  report("title of the comparison", await page.locator("#title").textContent());
  report("one-sided", await page.locator(".comparison tbody tr.differs").evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll("code, td:last-child")].map((cell) => cell.textContent))));

  // two windows on one conversation: the second one follows what the first one decides
  await page.click("#new-thread");
  await page.waitForSelector(".welcome");
  await page.fill("#composer-text", "Please refund Ada");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".pending");
  const other = await context.newPage();
  await other.goto(page.url());
  await other.waitForSelector(".pending");
  report("second window", await other.locator("#status").textContent());
  await decide(page, "Allow");
  await says(other, "It is done: 4.0 euros went to Ada");
  report("second window follows", await other.locator(".pending").count());

  // the second window has lost the connection, and decides too late
  await page.fill("#composer-text", "Please refund Ada again");
  await page.keyboard.press("Enter");
  await other.waitForSelector(".pending");
  await other.route("**/version", (route) => route.abort());
  await other.waitForSelector(".decision[aria-disabled='false']");
  await decide(page, "Allow");
  await page.waitForFunction(() => document.querySelectorAll(".reply").length >= 4 && !document.querySelector("#main").classList.contains("running"));
  await other.locator(".pending button", { hasText: "Refuse" }).first().click();
  await other.waitForFunction(() => document.querySelector("#notice").innerText);
  report("too late", [await other.locator("#notice").innerText(), await other.locator(".pending").count(), await lastReply(other).locator(".markdown").innerText()]);
  await other.close();

  // rename a conversation: the list, the heading and a later visit show the title
  const names = ["Refunds of Ada", ""];
  const titles = () => page.locator("#thread-list a").allTextContents();
  page.once("dialog", (dialog) => dialog.accept(names[0]));
  await page.locator("#thread-list button[aria-label='Rename: Please refund Ada']").click();
  await page.locator("#thread-list a", { hasText: names[0] }).waitFor();
  await page.reload();
  await page.locator("#thread-list a", { hasText: names[0] }).waitFor();
  await page.waitForFunction((title) => document.getElementById("title").textContent === title, names[0]);
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  page.once("dialog", (dialog) => dialog.accept(names[1]));
  await page.locator(`#thread-list button[aria-label='Rename: ${names[0]}']`).click();
  await page.locator("#thread-list a", { hasText: "Please refund Ada" }).waitFor();
  report("renamed", [(await titles()).includes(names[0]), await focused(), await page.locator("#title").textContent()]);

  // the filter finds conversations too
  await page.fill("#filter", "REFUND please"); // no word of hexadecimal digits, which an id may have
  report("filtered conversations", await titles());
  await page.fill("#filter", "");

  // delete a conversation: first not, then with its runs, and the page shows a new one
  const questions = [];
  let decision = "dismiss";
  page.on("dialog", (dialog) => {
    questions.push(dialog.message());
    dialog[decision]();
  });
  const remove = page.locator("#thread-list button[aria-label='Delete: Please refund Ada']");
  await remove.click();
  report("kept", await page.locator("#thread-list a", { hasText: "Please refund Ada" }).count());
  decision = "accept";
  await remove.click();
  await page.waitForSelector(".welcome");
  await page.waitForFunction(() => ![...document.querySelectorAll("#thread-list a, #run-list a")].some((link) => link.textContent.includes("Please refund Ada")));
  await page.reload();
  await page.waitForSelector("#run-list a");
  report("deleted", [await page.locator(".list a", { hasText: "Please refund Ada" }).count(), (await page.locator("#thread-list a").count()) > 0, questions.at(-1)]);
  report("problems", problems);
} finally {
  await browser.close();
}
