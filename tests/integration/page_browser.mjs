// Starts the browser that the scripts of the page drive: `node SCRIPT MODULES CHROMIUM ...`.
import { createRequire } from "node:module";

const [, , modules, chromiumPath, ...others] = process.argv;
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export const given = others;
export const requirePackage = createRequire(modules);
export const report = (name, value) => console.log(JSON.stringify([name, value]));
const longest = 300000; // milliseconds of a wait, on a busy machine too; the test ends a page that never gets there
export const openContext = async (browser, how) => {
  const context = await browser.newContext(how);
  context.setDefaultTimeout(longest);
  return context;
};
export const launch = (...more) => requirePackage("playwright-core").chromium.launch({ executablePath: chromiumPath, args: [...flags, ...more] });
