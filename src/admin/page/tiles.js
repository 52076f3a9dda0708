// At a glance.

import { $, el, say } from "./dom.js";
import { count, duration, percent, rate, within } from "./numbers.js";
import { past, series, sessionsOf, since, sum } from "./past.js";
import { plot } from "./plots.js";

export const OUTCOMES = ["rewritten", "passed", "refused", "failed"];

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
const TITLES = { ids: "Ids issued", statements: "Statements", sessions: "Sessions", reserve: "Reserve", used: "Fullest generator", store: "Store" };
for (const [name, title] of Object.entries(TITLES)) tiles[name] = tile(name, title);

export function showTiles(status, now) {
  const all = past.all;
  const taking = status.generators.filter((each) => each.per_second > 0).length;
  tiles.ids(rate(all.at(-1).ids), "a second", `${count(taking)} of ${count(status.generators.length)} generators in use`,
    [{ points: series(all, (point) => point.ids) }], { now, format: rate });

  const outcomes = OUTCOMES.filter((outcome) => outcome in status.statements);
  const keys = outcomes.map((outcome) =>
    el("span", { class: "share" }, el("b", { class: `key ${outcome}` }, outcome), ` ${rate(status.statements[outcome].per_second)}`));
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
