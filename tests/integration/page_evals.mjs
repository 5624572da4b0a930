// Drives the list of evaluations and the report of one.  Each check prints a line of JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [, , modules, chromiumPath, base] = process.argv;
const require = createRequire(modules);
const { chromium } = require("playwright-core");
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const report = (name, value) => console.log(JSON.stringify([name, value]));
const browser = await chromium.launch({ executablePath: chromiumPath, args: flags });
try {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 } });
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
  await sheet.locator("td.wrong a").click();
  report("jumped", await sheet.evaluate(() => document.querySelector("article:target") !== null));
  const talk = sheet.locator("article > details").first();
  const isOpen = () => talk.evaluate((element) => element.open);
  const before = await isOpen();
  await talk.locator("> summary").click();
  report("conversation", [before, await isOpen()]);
  report("hacked", await sheet.evaluate(() => window.hacked ?? null));
  const session = await context.newCDPSession(sheet);
  await session.send("Runtime.evaluate", { expression: readFileSync(require.resolve("axe-core/axe.min.js"), "utf8") });
  const found = await sheet.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  report("axe", found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`));
  report("problems", problems);
} finally {
  await browser.close();
}
