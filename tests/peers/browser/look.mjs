// Looks at the status page in Chromium: look.mjs URL FOLDER
//
// Steps come as words on standard input, one a line; each is answered by one line of JSON. So the
// program that started this decides what happens behind the page meanwhile. CHROMIUM names the
// browser's program; without it, that of the system is taken.
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [url, folder] = process.argv.slice(2);
const known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const executablePath = process.env.CHROMIUM ?? known.find(existsSync);
// The browser's own calls home are not what is tested.
const quiet = [
  "--disable-background-networking", "--disable-component-update", "--disable-gpu", "--disable-quic",
  "--disable-sync", "--no-first-run",
];
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", ...quiet] });
const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, colorScheme: "light" });
const page = await context.newPage();
// Whatever the page loads from elsewhere, or complains about, is a fault.
const faults = [];
page.on("request", (request) => {
  if (!request.url().startsWith(url) && !request.url().startsWith("data:")) faults.push(`loads ${request.url()}`);
});
page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
page.on("pageerror", (error) => faults.push(String(error)));
await page.goto(url);

// What a person reads of each server.
const shown = () => page.evaluate(() => [...document.querySelectorAll(".server")].map((card) => ({
  name: card.querySelector("h2").textContent,
  muted: !card.querySelector(".badge.muted").hidden,
  observed: !card.querySelector(".badge.observed").hidden,
  kinds: [...card.querySelectorAll(".kind")].map((kind) => ({
    used: kind.querySelector(".used").textContent,
    value: kind.querySelector("[role=meter]").getAttribute("aria-valuetext"),
    totals: kind.querySelector(".totals").textContent,
    plotted: kind.querySelectorAll(".plot rect").length,
  })),
  causes: [...card.querySelectorAll("table")[0].tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)),
})));

const steps = {
  shown,
  faults: () => faults,
  // The first name of text that appears within so many milliseconds.
  wait: async (text, milliseconds) => {
    await page.getByText(text).first().waitFor({ timeout: Number(milliseconds) });
    return true;
  },
  picture: async (name) => {
    await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
    return true;
  },
  dark: () => page.emulateMedia({ colorScheme: "dark" }),
  light: () => page.emulateMedia({ colorScheme: "light" }),
  width: (width) => page.setViewportSize({ width: Number(width), height: 900 }),
  // By keyboard alone: to the button of this name, and Enter.
  press: async (name) => {
    const button = page.getByRole("button", { name, exact: true });
    for (let tries = 0; tries < 60; tries++) {
      await page.keyboard.press("Tab");
      if (await button.evaluate((it) => it === document.activeElement)) {
        await page.keyboard.press("Enter");
        return true;
      }
    }
    return false;
  },
  // What a screen reader is told.
  tree: () => page.locator("body").ariaSnapshot(),
  // Whether anything is cut off or has to be scrolled sideways.
  overflows: () => page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth),
  // What a person has to scroll to, within the tables that are always open.
  clipped: () => page.evaluate(() => [...document.querySelectorAll(".tables .scroll")]
    .filter((box) => box.scrollWidth > box.clientWidth)
    .map((box) => box.textContent)),
  captions: () => page.evaluate(() => [...document.querySelectorAll(".tables .scroll")]
    .filter((box) => !box.hidden)
    .map((box) => [box.querySelector("caption").textContent, box.getAttribute("aria-label"), box.clientWidth])),
  markup: () => page.evaluate(() => document.querySelectorAll("main script, main img, main iframe, main a").length),
};

for await (const line of createInterface({ input: process.stdin })) {
  const [step, ...args] = JSON.parse(line);
  try {
    console.log(JSON.stringify({ ok: (await steps[step](...args)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
await browser.close();
