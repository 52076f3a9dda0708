// Clicks through the page as tests/page.sh has it, and compares what it shows with /status.json.
// clicks.mjs URL PID-OF-THE-PROXY; ROWSTAMP_LOAD_PIDS insert until they are killed.

import { Browser } from "./browser.mjs";
import { check, same, sum } from "./checks.mjs";

const [url, proxy] = process.argv.slice(2);
const shots = process.env.ROWSTAMP_SHOTS;
const loadSeconds = Number(process.env.ROWSTAMP_LOAD ?? 40);

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const status = async () => (await fetch(`${url}status.json`)).json();
const separated = (digits) => String(digits).replace(/\B(?=(\d{3})+$)/g, ",");

const browser = new Browser("chromium");
const page = await browser.open(url);

const texts = (selector) => page.value(`[...document.querySelectorAll(${JSON.stringify(selector)})].map((each) => each.textContent)`);
const names = () => page.value("[...document.querySelectorAll('#generators tbody tr[data-name]')].map((each) => each.dataset.name)");
const cell = (name, key) => page.value(`document.querySelector("tr[data-name='${name}'] [data-cell=${key}]").textContent`);
const clear = () => page.value("(() => { const f = document.querySelector('#filter'); f.value = ''; f.dispatchEvent(new Event('input')); })()");

async function shoot(name) {
  if (shots) await page.shoot(`${shots}/${name}.png`);
}

// The row of a generator's details with that head.
const detail = (name, head) => page.value(`(() => {
  const heads = [...document.querySelectorAll("tr[data-of='${name}'] dt")];
  return heads.find((dt) => dt.textContent === ${JSON.stringify(head)})?.nextElementSibling.textContent ?? null;
})()`);

async function run() {
  await page.look({ width: 1280, height: 900 });
  await page.until("!document.querySelector('main').hidden", "the page shows the proxy");

  await check("it is ready, and all checks are told", async () => {
    const told = await status();
    same(await texts("#ready"), ["ready"]);
    same(await page.value("[...document.querySelectorAll('#checks li')].map((each) => each.dataset.check)"), told.checks.map((each) => each.name));
    same(await texts("#name"), [told.about.name]);
  });

  await check("generators are there, by name", async () => {
    same(await names(), ["shop.events", "shop.order_items", "shop.orders", "shop.returns"]);
  });

  await check("ids a second are shown while they are taken", async () => {
    await page.until("Number(document.querySelector('[data-tile=ids] .value').firstChild.textContent.replaceAll(',', '')) > 50", "a rate of ids");
    const taken = (await status()).generators.find((each) => each.name === "shop.order_items").per_second;
    if (!(taken > 20)) throw new Error(`the proxy tells ${taken} a second`);
  });

  // The screenshots, with something in the plots.
  await sleep(loadSeconds);
  await page.click("tr[data-name='shop.orders'] button");
  await page.until("document.querySelector(\"tr[data-of='shop.orders'] svg .line\")", "the plots of a generator");
  await shoot("page");
  await page.look({ width: 1280, height: 900, dark: true });
  const colours = "getComputedStyle(document.body).backgroundColor";
  await check("dark where the reader wants it dark", async () => {
    same(await page.value(colours), "rgb(14, 19, 25)");
    await shoot("page-dark");
    await page.look({ width: 1280, height: 900 });
    same(await page.value(colours), "rgb(244, 246, 248)");
  });
  await check("a telephone shows it all, one under the other", async () => {
    await page.look({ width: 390, height: 844, phone: true });
    await page.value("new Promise((resolve) => setTimeout(resolve, 300))");
    same(await page.value("document.documentElement.scrollWidth"), 390, "its width");
    await shoot("page-phone");
    await page.look({ width: 1280, height: 900 });
  });
  await check("plots have the last minutes", async () => {
    // Asked for every two seconds, and the machine may be slow.
    const points = await page.value("document.querySelector('[data-tile=ids] .line').getAttribute('d').split('L').length");
    if (points < Math.max(3, loadSeconds / 4)) throw new Error(`a line of ${points} points`);
    await page.point("[data-tile=ids] .plot");
    await page.until("document.querySelector('[data-tile=ids] .tip')?.textContent.match(/^\\d\\d:\\d\\d:\\d\\d  [\\d,.]+$/)", "the value under the pointer");
  });

  for (const pid of process.env.ROWSTAMP_LOAD_PIDS.split(" ")) process.kill(Number(pid));
  // Rates are of the last ten seconds.
  await page.until("document.querySelector('[data-tile=ids] .value').firstChild.textContent === '0'", "rates of nothing", 40);

  await check("a generator's numbers are those of /status.json", async () => {
    const orders = (await status()).generators.find((each) => each.name === "shop.orders");
    same(await detail("shop.orders", "Issued since the start"), separated(orders.issued), "issued");
    same(await detail("shop.orders", "Bound in the store"), separated(orders.bound), "bound");
    same(await detail("shop.orders", "Last possible id"), "4,294,967,295", "max");
    same(await cell("shop.orders", "headroom"), separated(orders.headroom_ids), "headroom");
    same(await cell("shop.orders", "reserve"), separated(orders.reserved_ids), "reserve");
    same(BigInt(orders.headroom_ids) === BigInt(orders.max) - BigInt(orders.bound) + 1n, true, "headroom from the bound");
    if (orders.issued < 100) throw new Error(`only ${orders.issued} ids`);
  });

  await check("statements and refusals are those of /status.json", async () => {
    const told = await status();
    const shown = Object.fromEntries(await page.value("[...document.querySelectorAll('#statements tbody tr')].map((tr) => [tr.cells[0].textContent, tr.cells[2].textContent])"));
    same(shown.rewritten, separated(told.statements.rewritten.total), "rewritten");
    same(shown.refused, separated(told.statements.refused.total), "refused");
    same(told.statements.refused.total >= 1, true, "one was refused");
    const reasons = await page.value("[...document.querySelectorAll('#refused tbody tr')].map((tr) => tr.cells[0].textContent)");
    same(reasons.includes("unsupported"), true, `among ${reasons}`);
  });

  await check("a second click on a name folds it, Enter on it opens it again", async () => {
    await page.click("tr[data-name='shop.orders'] button");
    same(await page.value("document.querySelectorAll('tr.details').length"), 0, "details");
    await page.value("document.querySelector(\"tr[data-name='shop.orders'] button\").focus()");
    await page.key("Enter", "Enter", "\r");
    same(await page.value("document.activeElement.getAttribute('aria-expanded')"), "true", "expanded, and it has the focus yet");
    same(await page.value("document.querySelectorAll('tr.details').length"), 1, "details");
  });

  await check("a click on a column sorts, another one turns it round", async () => {
    const left = (each) => BigInt(each.headroom_ids ?? -1);
    const told = (await status()).generators.sort((a, b) => (left(a) < left(b) ? 1 : left(a) > left(b) ? -1 : a.name < b.name ? -1 : 1));
    await page.click("[data-sort=headroom]");
    same(await names(), told.map((each) => each.name), "most first");
    same(await page.value("document.querySelector('[data-sort=headroom]').parentElement.getAttribute('aria-sort')"), "descending");
    await page.click("[data-sort=headroom]");
    const least = (await names())[0];
    same(least, "shop.events", "what has no such number comes first");
    await page.click("[data-sort=name]");
    same(await names(), ["shop.events", "shop.order_items", "shop.orders", "shop.returns"], "by name again");
  });

  await check("the filter finds by name, kind and state", async () => {
    await page.click("#filter");
    await page.type("ORDER");
    same(await names(), ["shop.order_items", "shop.orders"]);
    same(await texts("#shown"), ["2 of 4"]);
    await clear();
    await page.click("#filter");
    await page.type("timestamp");
    same(await names(), ["shop.events"]);
    await clear();
    await page.click("#filter");
    await page.type("nothing like it");
    same([await names(), await texts("#none")], [[], ["No generator matches the filter."]]);
    await clear();
    same((await names()).length, 4);
  });

  await check("servers, tables, clients, refused statements and events are those of /status.json", async () => {
    const told = await status();
    same(await texts("#servers tbody td:first-child"), told.backends.map((each) => each.address), "servers");
    same(await texts("[data-tile=servers] .value"), ["1 of 1 up"]);
    const ids = Object.fromEntries(await page.value("[...document.querySelectorAll('#tables tbody tr')].map((tr) => [tr.cells[0].textContent, tr.cells[3].textContent])"));
    for (const [name, each] of Object.entries(told.tables)) same(ids[name], separated(each.ids.total), name);
    same(Object.keys(ids).length, 4, "tables");
    same(await texts("#refused-statements tbody td:first-child"), told.refused_statements.map((each) => each.statement), "refused");
    same(told.refused_statements.length >= 1, true, "one was refused");
    const events = await texts("#events tbody td:last-child");
    same(events.some((text) => text.startsWith("rowstamp starts")), true, `among ${events}`);
    if (told.latency.count < 100) throw new Error(`${told.latency.count} commands`);
  });

  await check("doors and users are those of /status.json", async () => {
    const { doors, users } = await status();
    same(doors.map((each) => each.open), [true, true], "open");
    same(await page.value("document.querySelector('#doors-card').hidden"), false, "hidden");
    same(await texts("#doors tbody td:first-child"), ["Redis protocol", "HTTP"]);
    same(await texts("#doors tbody td:nth-child(2)"), doors.map((each) => each.address));
    same(await texts("#doors tbody td:nth-child(6)"), ["2", "0"], "refused");
    same(await texts("#doors tbody td:nth-child(8)"), ["120", "0"], "ids");
    const [name, , ...counts] = await texts("#busiest tbody td");
    same([name, ...counts], ["labels", "120", "0", "0"]);
    same(users.busiest.length, 1, "those who drew");
    same((await texts("#users"))[0].startsWith("Users: 1 of rowstamp.toml; 0 of the store, read "), true, await texts("#users"));
  });

  await check("a window that is opened later has the minutes before it", async () => {
    const points = (await (await fetch(`${url}history.json`)).json()).length;
    // The window before it stays a while.
    await page.value("window.isBefore = true; location.reload()");
    await page.until("!window.isBefore && document.querySelector('[data-tile=ids] .line')", "the page again", 20);
    const drawn = await page.value("document.querySelector('[data-tile=ids] .line').getAttribute('d').split('L').length");
    if (drawn < Math.min(points, 5)) throw new Error(`${drawn} of ${points} points`);
    same(await page.value("document.querySelectorAll('[data-tile=statements] .pile').length > 0"), true, "statements are stacked");
  });

  await check("nothing went wrong in it, and it asked for nothing from elsewhere", async () => {
    same(page.troubles(), []);
    same(page.requests().filter((each) => !each.startsWith(url) && !each.startsWith("data:")), []);
  });

  await check("it says plainly when the proxy is away, and goes on when it is back", async () => {
    process.kill(Number(proxy), "SIGSTOP");
    try {
      await page.until("!document.querySelector('#away').hidden && document.querySelector('#ready').textContent === 'away'", "the proxy is away", 20);
    } finally {
      process.kill(Number(proxy), "SIGCONT");
    }
    await page.until("document.querySelector('#away').hidden && document.querySelector('#ready').textContent === 'ready'", "it is back", 20);
  });
}

await sum(run, browser);
