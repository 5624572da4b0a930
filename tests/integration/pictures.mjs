// Takes the pictures of the documentation: files of the working folder, and the page of a server that it starts.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const [, , modules, chromiumPath, work, folder, query, ...serverCommand] = process.argv;
const { chromium } = createRequire(modules)("playwright-core");
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const base = "http://127.0.0.1:8097";

const server = spawn(serverCommand[0], serverCommand.slice(1), { stdio: "ignore" });
const browser = await chromium.launch({ executablePath: chromiumPath, args: flags });
try {
  const context = await browser.newContext({ viewport: { width: 960, height: 640 }, colorScheme: "light" });
  const page = await context.newPage();
  for (const name of ["terminal", "notebook"]) {
    await page.goto(`file://${work}/${name}.html`);
    const box = await page.locator(name === "terminal" ? "svg" : "body").first().boundingBox();
    const clip = { x: 0, y: 0, width: 960, height: Math.min(780, Math.ceil(box.y + box.height + 12)) };
    await page.screenshot({ path: `${folder}/${name}.png`, clip, fullPage: true });
  }
  await page.setViewportSize({ width: 960, height: 720 });
  await page.goto(`file://${work}/report.html`);
  await page.screenshot({ path: `${folder}/report.png` });

  for (;;) {
    try {
      await fetch(base);
      break;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  await page.goto(`${base}/?token=token`);
  await page.waitForSelector(".welcome");
  await page.fill("#composer-text", query);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: /allow/i }).first().waitFor();
  await page.screenshot({ path: `${folder}/web.png` });
} finally {
  await browser.close();
  server.kill();
}
