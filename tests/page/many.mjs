// The page of a proxy with ROWSTAMP_GENERATORS generators, of which a tenth is used up, as tests/page.sh has it.
// many.mjs URL

import { Browser } from "./browser.mjs";
import { check, same, sum } from "./checks.mjs";

const url = process.argv[2];
const total = Number(process.env.ROWSTAMP_GENERATORS);
const people = (number) => number.toLocaleString("en-US");
const name = (nth) => `many.t_${String(nth).padStart(5, "0")}`;

const browser = new Browser("chromium");
const begun = Date.now();
const page = await browser.open(url);

const texts = (selector) => page.value(`[...document.querySelectorAll(${JSON.stringify(selector)})].map((each) => each.textContent)`);
const names = () => page.value("[...document.querySelectorAll('#generators tbody tr[data-name]')].map((each) => each.dataset.name)");

// Milliseconds that the page computes for, while something is done.
async function busy(work) {
  const metrics = async () => Object.fromEntries((await page.send("Performance.getMetrics")).metrics.map((each) => [each.name, each.value]));
  const before = await metrics();
  await work();
  const after = await metrics();
  return { computes: Math.round((after.TaskDuration - before.TaskDuration) * 1000), heap: after.JSHeapUsedSize / 2 ** 20 };
}

async function run() {
  await page.send("Performance.enable");
  await page.look({ width: 1280, height: 900 });
  await page.until("!document.querySelector('main').hidden", "the page shows the proxy");
  console.log(`shown   after ${Date.now() - begun} ms, Chromium's page opened included`);

  await check(`fifty of ${people(total)} generators are shown, and the others are pages`, async () => {
    same(await names(), Array.from({ length: 50 }, (_, nth) => name(nth + 1)));
    same(await texts("#shown"), [people(total)]);
    await page.click("#later");
    same((await names())[0], name(51));
    same(await texts("#page-of"), [`51 to 100 of ${people(total)}`]);
    await page.click("#earlier");
  });

  await check("a few of the troubles are shown, and how many others there are", async () => {
    const [trouble] = await texts("#trouble");
    const lines = trouble.split("\n");
    same(lines.filter((line) => line.startsWith("many.")).length, 10, "generators");
    const [height, lists] = await Promise.all([page.value("document.documentElement.scrollHeight"),
      page.value("document.querySelector('#generators').offsetHeight")]);
    if (height > lists + 4000) throw new Error(`${height} pixels are too long a page for ${lists} of generators`);
    same(lines.at(-1), `and ${people(total / 10 - 10)} more; the filter of the list finds them by their state: stopped`);
  });

  await check("a key in the filter finds one of them, and a sort those that are used up", async () => {
    await page.click("#filter");
    const { computes } = await busy(() => page.type("t_00049"));
    console.log(`filter  ${computes} ms`);
    same(await names(), [name(49)]);
    await page.value("(() => { const f = document.querySelector('#filter'); f.value = ''; f.dispatchEvent(new Event('input')); })()");
    const sort = await busy(() => page.click("[data-sort=used]"));
    console.log(`sort    ${sort.computes} ms`);
    same((await names())[0], name(10));
  });

  await check("it goes on, and computes for less than a quarter of the time", async () => {
    await page.value("window.asked = document.querySelector('#updated').textContent");
    const seconds = 20;
    const { computes, heap } = await busy(() => new Promise((resolve) => setTimeout(resolve, seconds * 1000)));
    console.log(`a turn  ${(computes / seconds * 2).toFixed(0)} ms, every 2 s; the page's heap has ${heap.toFixed(0)} MiB`);
    if (computes > seconds * 250) throw new Error(`${computes} ms of ${seconds} s`);
    same(await page.value("document.querySelector('#updated').textContent !== window.asked"), true, "it goes on");
  });

  await check("nothing went wrong in it", async () => same(page.troubles(), []));
}

await sum(run, browser);
