// Drives the dashboard in Chromium as a person does: node browser.mjs ADDRESS. The folder has two ended campaigns of one plan, and one
// that runs. Exits with 1 and the cause at the first failure.

import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [address] = process.argv.slice(2);
const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const SCREENS = [[1440, "light"], [390, "dark"], [1440, "dark"], [390, "light"]];

function check(holds, what) {
  if (!holds) throw new Error(what);
}

/** No violation of the rules of axe, nothing wider than the screen. */
async function look(page, name) {
  // The browser of the test may run a script that the pages' own policy forbids: axe comes through the debugger.
  const { readFileSync } = await import("node:fs");
  await page.evaluate(readFileSync(axe, "utf8"));
  const { violations } = await page.evaluate(() => window.axe.run(document));
  const told = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
  check(violations.length === 0, `${name}: axe: ${told.join("\n")}`);
  const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  check(wide <= room, `${name}: ${wide} px wide on ${room} px`);
  console.log(`looked at ${name}`);
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
  for (const [width, colorScheme] of SCREENS) {
    const screen = `${width} px ${colorScheme}`;
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    page.setDefaultTimeout(60000);
    const problems = [];
    page.on("request", (request) => {
      const { origin, protocol } = new URL(request.url());
      if (origin !== new URL(address).origin && protocol !== "data:" && protocol !== "blob:") problems.push(`request to ${origin}`);
    });
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    page.on("pageerror", (error) => problems.push(error.message));

    await page.goto(address);
    await page.getByRole("link", { name: /^Follow / }).waitFor();
    await look(page, `the list, ${screen}`);

    await page.getByRole("link", { name: /^Follow / }).click();
    const goodput = page.locator('[data-field="goodput"]');
    await page.waitForFunction(() => /bit\/s/.test(document.querySelector('[data-field="goodput"]').textContent));
    await page.locator('[data-field="rates"] svg').waitFor();
    const first = await page.locator('[data-field="rates"]').innerHTML();
    const n = await page.evaluate(() => new Promise((done) => {
      let n = 0;
      const seen = new MutationObserver(() => n++);
      seen.observe(document.querySelector('[data-field="goodput"]'), { childList: true, characterData: true, subtree: true });
      setTimeout(() => done(n), 2000);
    }));
    // How many there are depends on the machine.
    check(n >= 1, "the figures stand still");
    check(first !== (await page.locator('[data-field="rates"]').innerHTML()), "the chart stands still");
    console.log(`${n} figures in 2 s, now ${await goodput.textContent()}`);
    await look(page, `the running campaign, ${screen}`);

    await page.goto(address);
    const compare = page.locator("li", { hasText: "ended-" }).getByRole("link", { name: /^Compare / });
    await compare.first().click();
    await page.waitForURL(/baseline/, { waitUntil: "load" });
    await look(page, `the choice, ${screen}`);
    await page.locator("li:not(.baseline)", { hasText: "ended-" }).getByRole("link", { name: /^Compare / }).first().click();
    await page.waitForURL(/\/compare/, { waitUntil: "load" });
    check(/ against /.test(await page.locator("h1").textContent()), "two clicks compare");
    await look(page, `the comparison, ${screen}`);

    await page.goto(address);
    await page.locator("li", { hasText: "ended-a" }).getByRole("heading").getByRole("link").click();
    await page.locator("#answer").waitFor();
    await look(page, `the report, ${screen}`);

    await page.goto(address);
    await page.locator("li", { hasText: "ended-a" }).getByRole("link", { name: / over time/ }).click();
    await page.locator(".plot svg").waitFor();
    check((await page.locator("tbody tr").count()) === 2, "both campaigns have a row");
    const figure = page.getByLabel("Figure");
    const other = (await figure.locator("option:not([selected])").allTextContents())[0];
    await figure.selectOption(other);
    await page.getByRole("button", { name: "Show" }).click();
    await page.waitForURL(/figure=/, { waitUntil: "load" });
    check((await page.locator(".subtitle").textContent()).includes(other), "the chosen figure is shown");
    await page.locator(".plot svg").waitFor();
    await look(page, `a figure over time, ${screen}`);
    check(problems.length === 0, `${screen}: ${problems.join("; ")}`);
    await page.close();
  }
  const page = await browser.newPage();
  await page.goto(address);
  await page.getByRole("link", { name: /^Follow / }).click();
  await page.waitForFunction(() => document.querySelector('[data-field="stage"]').textContent === "Ended", null, { timeout: 90000 });
  await page.goto(address);
  await page.getByRole("link", { name: /^Follow / }).waitFor({ state: "detached", timeout: 30000 });
  console.log("the end of the campaign was seen on both pages");
} catch (error) {
  console.log(`FAILED ${error.stack}`);
  process.exitCode = 1;
} finally {
  await browser.close();
}
