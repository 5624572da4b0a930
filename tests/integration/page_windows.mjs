// Drives two windows on one conversation that decide about a call at the same time.
import { given, launch, report } from "./page_browser.mjs";

const [base] = given;
const browser = await launch();
try {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 } });
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
  for (const page of [first, second]) await page.waitForSelector(".decision[aria-disabled='false']", { timeout: 20000 });
  const press = (page, wanted) => page.evaluate((text) => [...document.querySelectorAll(".decision")].find((one) => one.textContent === text).click(), wanted); // one window is in the background
  await Promise.all([press(first, "Allow"), press(second, "Refuse")]);
  for (const page of [first, second]) {
    await page.waitForFunction(() => document.querySelectorAll(".reply").length === 2 && !document.querySelector("#main").classList.contains("running"), undefined, { timeout: 20000 });
  }
  await new Promise((resolve) => setTimeout(resolve, 500));
  report("answers", await Promise.all([first, second].map((page) => page.locator(".texts").last().innerText())));
  report("notices", await Promise.all([first, second].map((page) => page.locator("#notice").innerText())));
  report("problems", problems);
} finally {
  await browser.close();
}
