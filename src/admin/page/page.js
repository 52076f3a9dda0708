// Shows /status.json, asked for every two seconds. Nothing is kept but the last ten minutes, in this window.

import { SPAN_MS, plot } from "./plots.js";

const POLL_MS = 2000;
const PATIENCE_MS = 5000;

const $ = (selector, place = document) => place.querySelector(selector);

function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// Only what has changed is written: a selection or the focus stays.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/* Numbers */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const count = (value) => (typeof value === "string" ? whole.format(BigInt(value)) : whole.format(value));
const number = (value, digits) => new Intl.NumberFormat("en-US", { maximumFractionDigits: digits }).format(value);
const rate = (value) => number(value, value > 0 && value < 1 ? 2 : value < 100 ? 1 : 0);

function duration(seconds) {
  if (seconds < 1e-3) return seconds === 0 ? "0 s" : `${number(seconds * 1e6, 0)} \u00b5s`;
  if (seconds < 1) return `${number(seconds * 1e3, seconds < 0.01 ? 2 : seconds < 0.1 ? 1 : 0)} ms`;
  if (seconds < 120) return `${number(seconds, seconds < 10 ? 1 : 0)} s`;
  const units = [[86400 * 365, "y"], [86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = units.findIndex(([length]) => seconds >= length);
  const [[long, word], next] = [units[at], units[at + 1]];
  const first = Math.floor(seconds / long);
  const rest = next ? Math.floor((seconds - first * long) / next[0]) : 0;
  return rest && first < 100 ? `${count(first)} ${word} ${rest} ${next[1]}` : `${count(first)} ${word}`;
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${number(value, at && value < 100 ? 1 : 0)} ${units[at]}`;
}

function percent(share) {
  if (share > 0 && share < 1e-4) return "< 0.01 %";
  return `${number(share * 100, share < 0.1 ? 2 : 1)} %`;
}

// The time that this share of the calls stayed within, from a histogram; as exact as its buckets are narrow.
function quantile({ count: all, buckets }, share) {
  const wanted = all * share;
  let [below, floor] = [0, 0];
  for (const [end, upTo] of buckets) {
    if (upTo >= wanted) return upTo === below ? end : floor + (end - floor) * ((wanted - below) / (upTo - below));
    [below, floor] = [upTo, end];
  }
  return null;
}

function within(timed, share) {
  if (!timed.count) return "\u2014";
  const time = quantile(timed, share);
  const last = timed.buckets.length ? timed.buckets[timed.buckets.length - 1][0] : 0;
  return time === null ? `> ${duration(last)}` : duration(time);
}

/* The last ten minutes */

const past = { all: [], of: new Map() };
let before = null;

function keep(list, point) {
  list.push(point);
  while (list.length && list[0].at < point.at - SPAN_MS) list.shift();
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
const series = (list, of) => list.map((point) => [point.at, of(point)]);

// All operations of the store as one.
function storeOf(status) {
  const all = Object.values(status.store);
  const buckets = new Map();
  for (const [end, upTo] of all.flatMap((timed) => timed.buckets)) buckets.set(end, (buckets.get(end) ?? 0) + upTo);
  return { count: sum(all.map((timed) => timed.count)), seconds: sum(all.map((timed) => timed.seconds)), buckets: [...buckets] };
}

function since(timed, earlier) {
  const then = new Map(earlier.buckets);
  return {
    count: timed.count - earlier.count,
    seconds: timed.seconds - earlier.seconds,
    buckets: timed.buckets.map(([end, upTo]) => [end, upTo - (then.get(end) ?? 0)]),
  };
}

function remember(status, at) {
  // Another process answers: its counters begin anew.
  if (before && before.about.since !== status.about.since) {
    past.all.length = 0;
    past.of.clear();
    before = null;
  }
  const store = storeOf(status);
  const lately = before ? since(store, storeOf(before)) : { count: 0, seconds: 0 };
  const lasting = status.generators.map((each) => each.reserved_seconds).filter((time) => time !== null);
  keep(past.all, {
    at,
    ids: sum(status.generators.map((each) => each.per_second)),
    statements: Object.fromEntries(Object.entries(status.statements).map(([outcome, each]) => [outcome, each.per_second])),
    sessions: sessionsOf(status),
    reserve: lasting.length ? Math.min(...lasting) : null,
    used: status.generators.length ? Math.max(...status.generators.map((each) => each.used)) : null,
    latency: lately.count > 0 ? lately.seconds / lately.count : null,
    store,
  });
  for (const each of status.generators) {
    if (!past.of.has(each.name)) past.of.set(each.name, []);
    keep(past.of.get(each.name), { at, rate: each.per_second, reserve: each.reserved_ids ?? each.reserved_seconds, used: each.used });
  }
  for (const name of past.of.keys()) {
    if (!status.generators.some((each) => each.name === name)) past.of.delete(name);
  }
  before = status;
}

const sessionsOf = (status) => status.sessions.login + status.sessions.idle + status.sessions.busy;

/* At a glance */

const OUTCOMES = ["rewritten", "passed", "refused", "failed"];

function tile(name, title) {
  const place = el("article", { class: "tile", "data-tile": name }, el("h2", {}, title), el("div", { class: "value" }),
    el("div", { class: "note" }), el("div", { class: "plot" }));
  $("#tiles").append(place);
  return (value, unit, note, lines, options) => {
    const shown = $(".value", place);
    if (shown.dataset.text !== `${value} ${unit}`) {
      shown.dataset.text = `${value} ${unit}`;
      shown.replaceChildren(value, " ", el("small", {}, unit));
    }
    if (typeof note === "string") say($(".note", place), note);
    else $(".note", place).replaceChildren(...note);
    plot($(".plot", place), lines, { label: title, ...options });
  };
}

const tiles = {};

function showTiles(status, now) {
  const all = past.all;
  const taking = status.generators.filter((each) => each.per_second > 0).length;
  tiles.ids(rate(all.at(-1).ids), "a second", `${count(taking)} of ${count(status.generators.length)} generators in use`,
    [{ points: series(all, (point) => point.ids) }], { now, format: rate });

  const outcomes = OUTCOMES.filter((outcome) => outcome in status.statements);
  const keys = outcomes.flatMap((outcome) =>
    [el("b", { class: `key ${outcome}` }, outcome), ` ${rate(status.statements[outcome].per_second)}  `]);
  tiles.statements(rate(sum(Object.values(status.statements).map((each) => each.per_second))), "a second", keys,
    outcomes.map((outcome) => ({ name: outcome, kind: outcome, points: series(all, (point) => point.statements[outcome] ?? null) })),
    { now, format: rate });

  const { login, idle, busy } = status.sessions;
  tiles.sessions(count(sessionsOf(status)), "connected", `${count(busy)} busy, ${count(idle)} idle, ${count(login)} logging in`,
    [{ points: series(all, (point) => point.sessions) }], { now, format: count });

  const lasting = status.generators.filter((each) => each.reserved_seconds !== null);
  const least = lasting.reduce((a, b) => (a && a.reserved_seconds <= b.reserved_seconds ? a : b), null);
  tiles.reserve(least ? duration(least.reserved_seconds) : "\u2014", least ? "without the store" : "",
    least ? `shortest: ${least.name}` : "nothing is taken just now",
    [{ points: series(all, (point) => point.reserve) }], { now, format: duration });

  const fullest = status.generators.reduce((a, b) => (a && a.used >= b.used ? a : b), null);
  const left = fullest?.headroom_ids ? `${fullest.name}: ${count(fullest.headroom_ids)} ids left` : fullest?.name ?? "there are no generators";
  tiles.used(fullest ? percent(fullest.used) : "\u2014", fullest ? "used, the most" : "", left,
    [{ points: series(all, (point) => point.used) }], { now, format: percent });

  const window = since(all.at(-1).store, all[0].store);
  const timed = window.count > 0 ? window : all.at(-1).store;
  tiles.store(within(timed, 0.99), timed.count ? "99 % within" : "",
    timed.count ? `mean ${duration(timed.seconds / timed.count)}, ${window.count > 0 ? `${count(window.count)} calls lately` : "none lately"}` : "not asked yet",
    [{ points: series(all, (point) => point.latency) }], { now, format: duration, dots: true });
}

/* Generators */

const big = (text) => (text === null ? -1n : BigInt(text));
const COLUMNS = [
  { key: "name", title: "Generator", of: (each) => each.name },
  { key: "state", title: "State", of: (each) => each.state },
  { key: "rate", title: "Ids a second", n: true, of: (each) => each.per_second },
  { key: "past", title: "Last 10 min", bare: true },
  { key: "reserve", title: "Reserve", n: true, of: (each) => each.reserved_ids ?? -1 },
  { key: "lasts", title: "Lasts", n: true, of: (each) => each.reserved_seconds ?? Infinity },
  { key: "headroom", title: "Ids left", n: true, wide: true, of: (each) => big(each.headroom_ids) },
  { key: "used", title: "Used", n: true, of: (each) => each.used },
  { key: "node", title: "Node", n: true, of: (each) => each.node ?? -1 },
  { key: "ahead", title: "Ahead", n: true, of: (each) => Math.max(each.ahead_seconds ?? -1, each.leap_seconds ?? -1) },
];
const TONE = { open: "good", paused: "warn", troubled: "warn", stopped: "bad" };

const rows = new Map();
const open = new Set();
let order = { key: "name", down: false };

function head() {
  for (const column of COLUMNS) {
    const th = el("th", { scope: "col", class: `${column.n ? "n" : ""} ${column.bare ? "bare" : ""}`.trim() });
    if (column.of) {
      const button = el("button", { type: "button", "data-sort": column.key }, column.title);
      button.addEventListener("click", () => {
        // Numbers are wanted largest first, words from A.
        order = { key: column.key, down: order.key === column.key ? !order.down : Boolean(column.n) };
        showGenerators(before);
      });
      th.append(button);
    } else {
      th.append(column.title);
    }
    $("#generators thead tr").append(th);
  }
  $("#filter").addEventListener("input", () => showGenerators(before));
}

function row(name) {
  const cells = Object.fromEntries(COLUMNS.map((column) => {
    const label = column.key === "name" ? {} : { "data-label": column.title };
    const td = el("td", { ...label, "data-cell": column.key, class: `${column.n ? "n" : ""} ${column.wide || column.bare ? "wide" : ""}`.trim() });
    return [column.key, td];
  }));
  const tr = el("tr", { "data-name": name }, ...Object.values(cells));
  const button = el("button", { type: "button", "aria-expanded": "false" }, name);
  const kind = el("span", { class: "kind" });
  cells.name.append(el("span", {}, button, kind));
  cells.state.append(el("span", { class: "pill" }));
  cells.past.append(el("div", { class: "plot" }));
  cells.used.append(el("span", {}, el("span", { class: "bar", "aria-hidden": "true" }, el("i")), el("span", {})));
  button.addEventListener("click", () => {
    if (!open.delete(name)) open.add(name);
    showGenerators(before);
  });
  return { tr, cells, button, kind, details: null };
}

function fill(row, each, now) {
  const { cells } = row;
  say(row.kind, each.kind);
  const pill = cells.state.firstChild;
  say(pill, each.state);
  pill.className = `pill ${TONE[each.state] ?? ""}`;
  say(cells.rate, rate(each.per_second));
  say(cells.reserve, each.reserved_ids === null ? "time" : count(each.reserved_ids));
  say(cells.lasts, each.reserved_seconds === null ? "\u2014" : duration(each.reserved_seconds));
  say(cells.headroom, each.headroom_ids === null ? "\u2014" : count(each.headroom_ids));
  say(cells.node, each.node === null ? "\u2014" : count(each.node));
  say(cells.ahead, each.leap_seconds !== null ? `clock leapt ${duration(each.leap_seconds)}` : each.ahead_seconds === null ? "\u2014" : duration(each.ahead_seconds));
  const [bar, share] = cells.used.firstChild.children;
  say(share, percent(each.used));
  bar.className = `bar ${each.used > 0.95 ? "bad" : each.used > 0.8 ? "warn" : ""}`;
  bar.firstChild.style.width = `${Math.min(100, each.used * 100)}%`;
  plot($(".plot", cells.past), [{ points: series(past.of.get(each.name), (point) => point.rate) }],
    { now, format: rate, label: `ids a second of ${each.name}`, bare: true });
  row.button.setAttribute("aria-expanded", String(open.has(each.name)));
}

function details(name) {
  const figure = (title) => el("figure", {}, el("figcaption", {}, title), el("div", { class: "plot" }));
  const inner = el("div", { class: "inner" }, el("p", { class: "why", hidden: "" }), el("dl", { class: "pairs" }),
    figure("Ids a second"), figure("Reserve"), figure("Used"));
  return el("tr", { class: "details", "data-of": name }, el("td", { colspan: String(COLUMNS.length) }, inner));
}

function fillDetails(tr, each, now) {
  const why = $(".why", tr);
  why.hidden = each.trouble === null;
  say(why, each.trouble ?? "");
  pairs($("dl", tr), [
    ["Issued since the start", count(each.issued)],
    ["Last id it may issue", count(each.max)],
    ["Bound in the store", each.bound === null ? null : count(each.bound)],
    ["Ids left", each.headroom_ids === null ? null : count(each.headroom_ids)],
    ["Reserve", each.reserved_ids === null ? null : `${count(each.reserved_ids)} ids`],
    ["Node", each.node === null ? null : count(each.node)],
    ["Ahead of the clock", each.ahead_seconds === null ? null : duration(each.ahead_seconds)],
    ["Clock leapt, not followed", each.leap_seconds === null ? null : duration(each.leap_seconds)],
    ["Rules that name it", count(each.rules)],
  ]);
  const list = past.of.get(each.name);
  const [rates, reserve, used] = tr.querySelectorAll(".plot");
  plot(rates, [{ points: series(list, (point) => point.rate) }], { now, format: rate, label: "ids a second" });
  plot(reserve, [{ points: series(list, (point) => point.reserve) }],
    { now, format: each.reserved_ids === null ? duration : count, label: "reserve" });
  plot(used, [{ points: series(list, (point) => point.used) }], { now, format: percent, label: "used" });
}

function sorted(generators) {
  const column = COLUMNS.find((each) => each.key === order.key);
  const compare = (a, b) => {
    const [x, y] = [column.of(a), column.of(b)];
    const way = x < y ? -1 : x > y ? 1 : 0;
    return (order.down ? -way : way) || (a.name < b.name ? -1 : 1);
  };
  return [...generators].sort(compare);
}

function showGenerators(status) {
  const now = Date.now();
  const wanted = $("#filter").value.trim().toLowerCase();
  const fits = (each) => [each.name, each.kind, each.state].some((text) => text.toLowerCase().includes(wanted));
  const shown = sorted(status.generators.filter(fits));
  const body = $("#generators tbody");
  const places = [];
  for (const each of shown) {
    if (!rows.has(each.name)) rows.set(each.name, row(each.name));
    const kept = rows.get(each.name);
    places.push(kept.tr);
    if (open.has(each.name)) places.push(kept.details ??= details(each.name));
    else kept.details = null;
  }
  // Moved only where the order is another: what moves loses the focus.
  if (places.length !== body.children.length || places.some((place, at) => body.children[at] !== place)) {
    const focused = document.activeElement;
    body.replaceChildren(...places);
    if (body.contains(focused)) focused.focus();
  }
  for (const each of shown) {
    const kept = rows.get(each.name);
    fill(kept, each, now);
    if (kept.details) fillDetails(kept.details, each, now);
  }
  for (const name of rows.keys()) {
    if (!status.generators.some((each) => each.name === name)) rows.delete(name);
  }
  COLUMNS.forEach((column, at) => {
    const th = $("#generators thead tr").children[at];
    if (column.key === order.key) th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  });
  const total = status.generators.length;
  say($("#shown"), wanted ? `${count(shown.length)} of ${count(total)}` : count(total));
  $("#none").hidden = shown.length > 0;
  say($("#none"), total ? "No generator is like that." : "The rules define no generator.");
}

/* Tables */

function table(selector, lines) {
  const body = $(`${selector} tbody`);
  while (body.children.length > lines.length) body.lastChild.remove();
  lines.forEach((line, at) => {
    if (!body.children[at]) body.append(el("tr"));
    const tr = body.children[at];
    while (tr.children.length < line.length) tr.append(el("td", { class: tr.children.length && isNumeric(selector) ? "n" : "" }));
    line.forEach((text, nth) => say(tr.children[nth], text));
  });
}

const isNumeric = (selector) => selector !== "#fleet";

function pairs(place, lines) {
  const shown = lines.filter(([, value]) => value !== null && value !== undefined);
  while (place.children.length > 2 * shown.length) place.lastChild.remove();
  while (place.children.length < 2 * shown.length) place.append(el("dt"), el("dd"));
  shown.forEach(([name, value], at) => {
    say(place.children[2 * at], name);
    say(place.children[2 * at + 1], value);
  });
}

function showTables(status) {
  const counted = ([name, each]) => [name.replaceAll("_", " "), rate(each.per_second), count(each.total)];
  const outcomes = Object.entries(status.statements);
  outcomes.sort(([a], [b]) => OUTCOMES.indexOf(a) - OUTCOMES.indexOf(b));
  table("#statements", outcomes.map(counted));
  const refused = Object.entries(status.refused).filter(([, each]) => each.total > 0);
  refused.sort(([, a], [, b]) => b.total - a.total);
  table("#refused", refused.map(counted));
  $("#refused").hidden = refused.length === 0;
  $("#none-refused").hidden = refused.length > 0;

  const timed = (name, each) => [name, count(each.count), each.count ? duration(each.seconds / each.count) : "\u2014", within(each, 0.99)];
  table("#times", [
    timed("the proxy's own, for a statement with ids", status.rewrite),
    timed("waiting for ids", status.id_wait),
    ...Object.entries(status.store).map(([operation, each]) => timed(`store: ${operation}`, each)),
  ]);
  const { sessions, traffic } = status;
  const flow = (direction) => traffic[direction] && `${bytes(traffic[direction].per_second)}/s, ${bytes(traffic[direction].total)} in all`;
  pairs($("#traffic"), [
    ["from clients", flow("from_client")],
    ["to clients", flow("to_client")],
    ["sessions opened", count(sessions.opened)],
    ["clients turned away", count(sessions.refused)],
    ["logins refused by the server", count(sessions.logins_refused)],
    ["store calls that failed", count(status.store_failures)],
  ]);
  const { rules } = status;
  pairs($("#rules"), [
    ["tables and patterns", count(rules.count)],
    ["in force since", rules.since === null ? null : time(rules.since)],
    ["files as read last", rules.good === null ? null : rules.good ? "are in force" : "have errors: older rules act"],
  ]);
  table("#fleet", status.fleet.proxies.map((proxy) =>
    [`${proxy.name}${proxy.self ? " (this one)" : ""}`, proxy.address, proxy.version, proxy.since]));
  $("#fleet").hidden = status.fleet.proxies.length === 0;
  $("#fleet-trouble").hidden = !status.fleet.trouble;
  say($("#fleet-trouble"), status.fleet.trouble ?? "");
}

const time = (seconds) => new Date(seconds * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });

function showChecks(status) {
  $("#checks").replaceChildren(...status.checks.map((check) => el("li", { "data-check": check.name },
    el("span", { class: "name" }, check.name),
    el("span", { class: `pill ${check.trouble ? "bad" : "good"}` }, check.trouble ? "trouble" : "fine"),
    el("span", { class: "why" }, check.trouble ?? ""))));
  const draining = status.about.draining;
  say($("#ready"), draining ? "draining" : status.ready ? "ready" : "not ready");
  $("#ready").className = `pill ${draining ? "warn" : status.ready ? "good" : "bad"}`;
  const troubles = [
    ...status.checks.filter((check) => check.trouble).map((check) => `${check.name}: ${check.trouble}`),
    ...status.generators.filter((each) => each.trouble).map((each) => `${each.name} is ${each.state}: ${each.trouble}`),
    ...(status.rules.good === false ? ["the rules that were read last have errors (the log has them); older rules act"] : []),
  ];
  $("#trouble").hidden = troubles.length === 0;
  say($("#trouble"), troubles.join("\n"));
}

function showAbout(status) {
  const { about } = status;
  document.title = `${status.ready ? "" : "\u26a0 "}${about.name} \u2013 Rowstamp`;
  say($("#name"), about.name);
  const lines = [
    ["listens on", about.listen],
    ["before", about.backends.join(", ")],
    ["store", about.store],
    ["up", duration(Math.max(0, Math.floor(status.now - about.since)))],
    ["version", about.version],
  ];
  const place = $("#about");
  if (place.children.length !== lines.length) place.replaceChildren(...lines.map(() => el("div", {}, el("dt"), el("dd"))));
  lines.forEach(([name, value], at) => {
    const [dt, dd] = place.children[at].children;
    say(dt, name);
    say(dd, value);
  });
}

/* Asking */

let answered = null;

function show(status, now) {
  $("main").hidden = false;
  remember(status, now);
  showAbout(status);
  showChecks(status);
  showTiles(status, now);
  showGenerators(status);
  showTables(status);
}

function away(error) {
  document.body.classList.add("away");
  const old = answered ? ` What is shown is ${duration(Math.max(1, Math.round((Date.now() - answered) / 1000)))} old.` : "";
  $("#away").hidden = false;
  say($("#away"), `The proxy does not answer (${error}).${old} Asking again every ${POLL_MS / 1000} s.`);
  say($("#ready"), answered ? "away" : "");
  $("#ready").className = "pill bad";
}

async function ask() {
  const response = await fetch("status.json", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  return response.json();
}

function reason(error) {
  return error.name === "TimeoutError" ? `nothing within ${PATIENCE_MS / 1000} s` : error.message.startsWith("HTTP") ? error.message : "no connection";
}

async function turn() {
  const begun = Date.now();
  let status = null;
  try {
    status = await ask();
  } catch (error) {
    away(reason(error));
  }
  if (status) {
    answered = Date.now();
    document.body.classList.remove("away");
    $("#away").hidden = true;
    show(status, answered);
    say($("#updated"), `As of ${new Date(answered).toLocaleTimeString("en-GB")}, anew every ${POLL_MS / 1000} s.`);
  }
  setTimeout(turn, Math.max(0, POLL_MS - (Date.now() - begun)));
}

const TILES = [["ids", "Ids issued"], ["statements", "Statements"], ["sessions", "Sessions"], ["reserve", "Reserve"],
  ["used", "Fullest generator"], ["store", "Store"]];
for (const [name, title] of TILES) tiles[name] = tile(name, title);
head();
turn();
