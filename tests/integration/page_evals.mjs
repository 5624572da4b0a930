// Drives the list of evaluations and the report of one.  Each check prints a line of JSON.
import { readFileSync } from "node:fs";
import { given, launch, openContext, report, requirePackage } from "./page_browser.mjs";

const [base] = given;
const browser = await launch();
try {
  const context = await openContext(browser, { viewport: { width: 1200, height: 900 } });
  const page = await context.newPage();
  const problems = [];
  const watch = (one) => {
    one.on("pageerror", (error) => problems.push(error.message));
    one.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  };
  watch(page);
  await page.goto(`${base}/?token=token`);
  await page.getByRole("heading", { name: "Evaluations" }).waitFor();
  report("list", await page.locator("#eval-list .hint").allTextContents());

  const [sheet] = await Promise.all([context.waitForEvent("page"), page.locator("#eval-list a").last().click()]);
  watch(sheet);
  await sheet.waitForLoadState();
  await sheet.reload(); // what its policy refuses is seen
  report("title", await sheet.locator("h1").textContent());
  const rowsOf = (place) => sheet.locator("table").nth(place).locator("tr").evaluateAll((rows) => rows.slice(1).map((row) => [...row.children].map((cell) => cell.textContent)));
  report("figures", await rowsOf(0));
  report("cases", await rowsOf(1));
  await sheet.locator("td .wrong a").click();
  report("jumped", await sheet.evaluate(() => document.querySelector("article:target") !== null));
  const talk = sheet.locator("article > details").first();
  const isOpen = () => talk.evaluate((element) => element.open);
  const before = await isOpen();
  await talk.locator("> summary").click();
  report("conversation", [before, await isOpen()]);
  report("hacked", await sheet.evaluate(() => window.hacked ?? null));
  const session = await context.newCDPSession(sheet);
  await session.send("Runtime.evaluate", { expression: readFileSync(requirePackage.resolve("axe-core/axe.min.js"), "utf8") });
  const found = await sheet.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  report("axe", found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`));
  report("problems", problems);
} finally {
  await browser.close();
}
