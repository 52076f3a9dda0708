// What the program of a client is asked to do, and the count of its checks: see ../README.md. Ids are BigInts here.

"use strict";

const { createInterface } = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");

const PORTS = process.env.ROWSTAMP_PORTS.split(" ").map(Number);
const CA = process.env.ROWSTAMP_CA;
const [WRITER, READER] = [["labels", "s3cret"], ["reader", "r3ad"]];
const [ORDERS, STEPPED, T, NOPE] = ["shop.orders", "shop.stepped", "shop.t", "shop.nope"];
// The second proxy's sequences begin here: an id tells who gave it.
const SECOND = 1_000_000_000n;
// After a proxy was killed, a client must have an id from the other one within so many milliseconds.
const SOON = 15_000;

const shown = (value) =>
  JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? `${inner}n` : inner)) ?? String(value);
// From first to last, both among them.
const range = (first, last, step = 1n) =>
  Array.from({ length: Number((last - first) / step) + 1 }, (_, nth) => first + BigInt(nth) * step);

// An error, with those that it stands for.
const told = (error) =>
  [`${error.name}: ${error.message}`, ...(error.errors ?? []).map(String), ...(error.cause ? [String(error.cause)] : [])].join("; ");

class Check {
  checks = 0;
  wrong = 0;
  ids = new Set();

  that(what, holds, found = "") {
    this.checks++;
    if (holds) return;
    this.wrong++;
    console.log(`WRONG ${what}: ${found}`);
  }

  same(what, found, expect) {
    this.that(what, shown(found) === shown(expect), `${shown(found)}, and not ${shown(expect)}`);
  }

  drawn(what, key, ids) {
    this.that(`${what}: whole numbers`, ids.every((one) => typeof one === "bigint"), shown(ids));
    const before = this.ids.size;
    for (const one of ids) this.ids.add(`${key} ${one}`);
    this.that(`${what}: ids that nobody has`, this.ids.size === before + ids.length, shown(ids));
  }

  async refused(what, text, call) {
    let found;
    try {
      found = await call();
    } catch (error) {
      this.that(`${what}: its error`, text.test(told(error)), told(error));
      return;
    }
    this.that(`${what}: an error`, false, shown(found));
  }

  end(client) {
    if (this.wrong === 0) console.log(`ok ${client}: ${this.checks} checks`);
    process.exit(this.wrong === 0 ? 0 : 1);
  }
}

// INCR, INCRBY, a pipeline and ROWSTAMP.TAKE of a sequence; the last id. first: an id that was drawn just now.
async function draw(check, client, { step = 1n, key = ORDERS, first } = {}) {
  if (first === undefined) {
    first = await client.incr(key);
    check.drawn(`INCR ${key}`, key, [first]);
  }
  let last = await client.incrby(key, 10);
  check.drawn(`INCRBY ${key} 10`, key, range(first + step, last, step));
  check.same(`INCRBY ${key} 10`, last, first + 10n * step);
  const ids = await client.pipeline(Array(100).fill(key));
  check.drawn(`100 INCR ${key} in a pipeline`, key, ids);
  check.same(`100 INCR ${key} in a pipeline`, ids, range(last + step, last + 100n * step, step));
  const runs = (await client.raw("ROWSTAMP.TAKE", key, "5")).map(BigInt);
  check.same(`ROWSTAMP.TAKE ${key} 5`, runs, [ids.at(-1) + step, 5n, step]);
  last = runs[0] + 4n * step;
  check.drawn(`ROWSTAMP.TAKE ${key} 5`, key, range(runs[0], last, step));
  return last;
}

async function drawTimestamps(check, client) {
  const first = await client.incr(T);
  check.drawn(`INCR ${T}`, T, [first]);
  const last = await client.incrby(T, 10);
  check.drawn(`INCRBY ${T} 10`, T, range(last - 9n, last));
  const ids = await client.pipeline(Array(100).fill(T));
  check.drawn(`100 INCR ${T} in a pipeline`, T, ids);
  const all = [first, last - 9n, last, ...ids];
  check.that(`${T} ascends`, all.every((one, nth) => nth === 0 || all[nth - 1] < one), shown(all));
  // The last digits are there: no number that is not whole can hold them.
  check.that(`${T} is above 2^53`, first > 1n << 53n, shown(first));
  const runs = (await client.raw("ROWSTAMP.TAKE", T, "10")).map(BigInt);
  let sum = 0n;
  for (let at = 0; at < runs.length; at += 3) {
    const [begin, count, step] = runs.slice(at, at + 3);
    check.drawn(`ROWSTAMP.TAKE ${T} 10`, T, range(begin, begin + (count - 1n) * step, step));
    sum += count;
  }
  check.same(`ROWSTAMP.TAKE ${T} 10: how many`, sum, 10n);
  let parts = await client.raw("ROWSTAMP.DECODE", T, String(first));
  if (Array.isArray(parts)) parts = { [parts[2]]: parts[3] };
  // Two clients of one program may use two proxies.
  check.that(`ROWSTAMP.DECODE ${T}`, parts.node == 0 || parts.node == 1, shown(parts));
}

// open([user, password]): a client.
async function run(check, open, isCluster) {
  const client = await open(WRITER);
  check.same("GET before the first id", await client.get(ORDERS), null);
  const first = await client.incr(ORDERS);
  check.drawn(`INCR ${ORDERS}`, ORDERS, [first]);
  client.second = first >= SECOND;
  const last = String(await draw(check, client, { first }));
  check.same(`GET ${ORDERS}`, await client.get(ORDERS), last);
  // Different keys of one command have different slots, and then a cluster client does not send it.
  const several = isCluster ? [ORDERS, ORDERS] : [ORDERS, STEPPED, NOPE];
  check.same("MGET", await client.mget(several), isCluster ? [last, last] : [last, null, null]);
  check.same("EXISTS", await client.exists(several), 2);
  await draw(check, client, { step: 10n, key: STEPPED });
  await drawTimestamps(check, client);
  check.same("ROWSTAMP.LIST", await client.raw("ROWSTAMP.LIST"), [ORDERS, STEPPED, T]);
  await check.refused(`INCR ${NOPE}`, /the rules have no generator/, () => client.incr(NOPE));
  await check.refused("SET", /unknown command 'set'/i, () => client.set(ORDERS, "1"));
  await check.refused("INCRBY 0", /is not a number of ids/, () => client.incrby(ORDERS, 0));
  const reader = await open(READER);
  const seen = await reader.get(ORDERS);
  check.that("GET as a reader", seen === null || /^\d+$/.test(seen), shown(seen));
  await check.refused("INCR as a reader", /NOPERM/, () => reader.incr(ORDERS));
  await check.refused("a wrong password", /WRONGPASS/, async () => (await open(["reader", "wrong"])).get(ORDERS));
  check.drawn(`INCR ${ORDERS} after all errors`, ORDERS, [await client.incr(ORDERS)]);
  if (isCluster) await lose(check, client);
}

// The proxy that the client uses is killed: it has to go on with the other one.
async function lose(check, client) {
  const killed = new Promise((resolve) => createInterface({ input: process.stdin }).once("line", resolve));
  console.log(`kill ${client.second ? 2 : 1}`);
  await killed;
  const begun = Date.now();
  const failed = [];
  let first;
  while (first === undefined) {
    try {
      first = await client.incr(ORDERS);
    } catch (error) {
      failed.push(told(error));
      if (Date.now() - begun > SOON) {
        check.that("the other proxy", false, `${failed.length} calls failed, the last with ${failed.at(-1).slice(0, 300)}`);
        return;
      }
      await sleep(50);
    }
  }
  console.log(`note went on after ${(Date.now() - begun) / 1000} s, ${failed.length} calls failed${failed.length ? ` (${failed[0]})` : ""}`);
  client.second = !client.second;
  check.that("the other proxy", first >= SECOND === client.second, shown(first));
  check.drawn(`INCR ${ORDERS} of the other proxy`, ORDERS, [first]);
  await draw(check, client, { first });
  await draw(check, client, { step: 10n, key: STEPPED });
  await drawTimestamps(check, client);
}

module.exports = { CA, Check, PORTS, run };
