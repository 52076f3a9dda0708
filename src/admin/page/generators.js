// The table of generators: sorted, filtered, one opened by a click.

import { $, el, pairs, say } from "./dom.js";
import { count, duration, lasts, people, percent, rate } from "./numbers.js";
import { past, series } from "./past.js";
import { plot } from "./plots.js";

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
let last = null;
let order = { key: "name", down: false };
// Rows of a page, and the page that is shown.
const PAGE = 50;
let at = 0;

function turnTo(page) {
  at = page;
  showGenerators(last);
}

function head() {
  for (const column of COLUMNS) {
    const th = el("th", { scope: "col", class: `${column.n ? "n" : ""} ${column.bare ? "bare" : ""}`.trim() });
    if (column.of) {
      const button = el("button", { type: "button", "data-sort": column.key }, column.title);
      button.addEventListener("click", () => {
        // Numbers are wanted largest first, words from A.
        order = { key: column.key, down: order.key === column.key ? !order.down : Boolean(column.n) };
        showGenerators(last);
      });
      th.append(button);
    } else {
      th.append(column.title);
    }
    $("#generators thead tr").append(th);
  }
  $("#filter").addEventListener("input", () => turnTo(0));
  $("#earlier").addEventListener("click", () => turnTo(at - 1));
  $("#later").addEventListener("click", () => turnTo(at + 1));
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
    showGenerators(last);
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
  say(cells.reserve, each.state === "unused" ? "\u2014" : each.reserved_ids === null ? "time" : count(each.reserved_ids));
  say(cells.lasts, each.reserved_seconds === null ? "\u2014" : duration(each.reserved_seconds));
  say(cells.headroom, each.headroom_ids === null ? "\u2014" : people(each.headroom_ids));
  say(cells.node, each.node === null ? "\u2014" : count(each.node));
  say(cells.ahead, each.leap_seconds !== null ? `clock leapt ${duration(each.leap_seconds)}` : each.ahead_seconds === null ? "\u2014" : duration(each.ahead_seconds));
  const [bar, share] = cells.used.firstChild.children;
  say(share, each.state === "unused" ? "\u2014" : percent(each.used));
  bar.className = `bar ${each.used > 0.95 ? "bad" : each.used > 0.8 ? "warn" : ""}`;
  bar.firstChild.style.width = `${Math.min(100, each.used * 100)}%`;
  plot($(".plot", cells.past), [{ points: series(past.of.get(each.name) ?? [], (point) => point.rate) }],
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
    ["Last possible id", each.max === null ? null : count(each.max)],
    ["Bound in the store", each.bound === null ? null : count(each.bound)],
    ["Ids left", each.headroom_ids === null ? null : count(each.headroom_ids)],
    ["At this rate", lasts(each.headroom_ids, each.per_second)],
    ["Ids in reserve", each.reserved_ids === null ? null : count(each.reserved_ids)],
    ["Node", each.node === null ? null : count(each.node)],
    ["Ahead of the clock", each.ahead_seconds === null ? null : duration(each.ahead_seconds)],
    ["Leap of the clock, not followed", each.leap_seconds === null ? null : duration(each.leap_seconds)],
    ["Rules that name the generator", count(each.rules)],
  ]);
  const list = past.of.get(each.name) ?? [];
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

export function showGenerators(status) {
  last = status;
  const now = Date.now();
  const wanted = $("#filter").value.trim().toLowerCase();
  const fits = (each) => [each.name, each.kind, each.state].some((text) => text.toLowerCase().includes(wanted));
  const fitting = sorted(status.generators.filter(fits));
  const pages = Math.max(1, Math.ceil(fitting.length / PAGE));
  at = Math.min(at, pages - 1);
  const shown = fitting.slice(at * PAGE, (at + 1) * PAGE);
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
  const names = new Set(shown.map((each) => each.name));
  for (const name of rows.keys()) {
    if (!names.has(name)) rows.delete(name);
  }
  COLUMNS.forEach((column, nth) => {
    const th = $("#generators thead tr").children[nth];
    if (column.key === order.key) th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  });
  const total = status.generators.length;
  say($("#shown"), wanted ? `${count(fitting.length)} of ${count(total)}` : count(total));
  $("#pages").hidden = pages === 1;
  say($("#page-of"), `${count(at * PAGE + 1)} to ${count(at * PAGE + shown.length)} of ${count(fitting.length)}`);
  $("#earlier").disabled = at === 0;
  $("#later").disabled = at === pages - 1;
  $("#none").hidden = shown.length > 0;
  say($("#none"), total ? "No generator matches the filter." : "The rules define no generator.");
}

head();
