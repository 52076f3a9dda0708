// At a glance.

import { $, el, say } from "./dom.js";
import { count, duration, lasts, people, percent, rate, within } from "./numbers.js";
import { past, recent, series, sessionsOf, sum } from "./past.js";
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
const TITLES = {
  ids: "Ids issued", statements: "Statements", latency: "Latency", sessions: "Sessions",
  reserve: "Reserve", used: "Fullest generator", store: "Store", servers: "Servers",
};
for (const [name, title] of Object.entries(TITLES)) tiles[name] = tile(name, title);

export function showTiles(status, now) {
  const all = past.all;
  const taking = status.generators.filter((each) => each.per_second > 0).length;
  tiles.ids(rate(all.at(-1).ids), "a second", `generators in use: ${count(taking)} of ${count(status.generators.length)}`,
    [{ points: series(all, (point) => point.ids) }], { now, format: rate });

  const outcomes = OUTCOMES.filter((outcome) => outcome in status.statements);
  const keys = outcomes.map((outcome) =>
    el("span", { class: "share" }, el("b", { class: `key ${outcome}` }, outcome), ` ${rate(status.statements[outcome].per_second)}`));
  tiles.statements(rate(sum(Object.values(status.statements).map((each) => each.per_second))), "a second", keys,
    outcomes.map((outcome) => ({ name: outcome, kind: outcome, points: series(all, (point) => point.statements[outcome] ?? null) })),
    { now, format: rate, stacked: true });

  const answered = recent("answered");
  tiles.latency(within(answered, 0.99), answered.count ? "p99" : "",
    answered.count ? `mean ${duration(answered.seconds / answered.count)}` : "no answer yet",
    [{ name: "all", points: series(all, (point) => point.latency) }, { name: "server", kind: "passed", points: series(all, (point) => point.server) }],
    { now, format: duration });

  const { login, idle, busy } = status.sessions;
  tiles.sessions(count(sessionsOf(status)), "connected", `${count(busy)} busy, ${count(idle)} idle, ${count(login)} logging in; ${count(status.sessions.limit)} at most`,
    [{ points: series(all, (point) => point.sessions) }], { now, format: count });

  const lasting = status.generators.filter((each) => each.reserved_seconds !== null);
  const least = lasting.reduce((a, b) => (a && a.reserved_seconds <= b.reserved_seconds ? a : b), null);
  tiles.reserve(least ? duration(least.reserved_seconds) : "\u2014", least ? "without the store" : "",
    least ? `shortest: ${least.name}` : "nobody takes ids now",
    [{ points: series(all, (point) => point.reserve) }], { now, format: duration });

  const fullest = status.generators.reduce((a, b) => (a && a.used >= b.used ? a : b), null);
  const left = fullest && (lasts(fullest.headroom_ids, fullest.per_second) ?? (fullest.headroom_ids && `${people(fullest.headroom_ids)} ${fullest.headroom_ids === "1" ? "id" : "ids"} left`));
  tiles.used(fullest ? percent(fullest.used) : "\u2014", fullest ? "used" : "", fullest ? [fullest.name, left].filter(Boolean).join(": ") : "no generators",
    [{ points: series(all, (point) => point.used) }], { now, format: percent });

  const asked = recent("store");
  tiles.store(within(asked, 0.99), asked.count ? "p99" : "",
    asked.count ? `mean ${duration(asked.seconds / asked.count)}, ${asked.lately ? `calls lately: ${count(asked.count)}` : "no calls lately"}` : "no calls yet",
    [{ points: series(all, (point) => point.wait) }], { now, format: duration, dots: true });

  const up = status.backends.filter((each) => each.up).length;
  const primary = status.backends.find((each) => each.primary);
  tiles.servers(`${count(up)} of ${count(status.backends.length)}`, "up",
    primary ? `new sessions go to ${primary.address}` : "", [{ points: series(all, (point) => point.sessions) }],
    { now, format: count, label: "sessions" });
}
