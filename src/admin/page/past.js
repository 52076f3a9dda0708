// The last ten minutes: at first as the proxy kept them, then as it answers.

import { SPAN_MS } from "./plots.js";

export const past = { all: [], of: new Map() };
let before = null;
const ALL_MAX = 500;

function keep(list, point) {
  list.push(point);
  while (list.length && list[0].at < point.at - SPAN_MS) list.shift();
}

export const sum = (values) => values.reduce((total, value) => total + value, 0);
export const series = (list, of) => list.map((point) => [point.at, of(point)]);

// All operations of the store as one.
function storeOf(status) {
  const all = Object.values(status.store);
  const buckets = new Map();
  for (const [end, upTo] of all.flatMap((timed) => timed.buckets)) buckets.set(end, (buckets.get(end) ?? 0) + upTo);
  return { count: sum(all.map((timed) => timed.count)), seconds: sum(all.map((timed) => timed.seconds)), buckets: [...buckets] };
}

export function since(timed, earlier) {
  const then = new Map(earlier.buckets);
  return {
    count: timed.count - earlier.count,
    seconds: timed.seconds - earlier.seconds,
    buckets: timed.buckets.map(([end, upTo]) => [end, upTo - (then.get(end) ?? 0)]),
  };
}

export function remember(status, at) {
  // Another process answers: its counters begin again.
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
    wait: mean(lately),
    store,
    latency: before ? mean(since(status.latency, before.latency)) : null,
    server: before ? mean(since(status.server_latency, before.server_latency)) : null,
    answered: status.latency,
  });
  // If there are thousands of generators, only those that something is taken from.
  const all = status.generators.length <= ALL_MAX;
  for (const each of status.generators) {
    if (!past.of.has(each.name) && (all || each.per_second > 0)) past.of.set(each.name, []);
    if (past.of.has(each.name)) keep(past.of.get(each.name), { at, rate: each.per_second, reserve: each.reserved_ids ?? each.reserved_seconds, used: each.used });
  }
  const names = new Set(status.generators.map((each) => each.name));
  for (const name of past.of.keys()) {
    if (!names.has(name)) past.of.delete(name);
  }
  before = status;
}

const mean = ({ count, seconds }) => (count > 0 ? seconds / count : null);

// The points that the proxy kept before this window was opened: a list, the oldest first.
export function recall(points) {
  const names = new Set(points.flatMap((point) => Object.keys(point.generators)));
  points.forEach((point, nth) => {
    const earlier = points[nth - 1];
    const lately = (of) => (earlier ? mean({ count: point[of].count - earlier[of].count, seconds: point[of].seconds - earlier[of].seconds }) : null);
    const at = point.at * 1000;
    const { ids, statements, sessions, reserve, used } = point;
    past.all.push({ at, ids, statements, sessions, reserve, used, wait: lately("store"), latency: lately("latency"), server: lately("server_latency") });
    for (const name of names) {
      if (!past.of.has(name)) past.of.set(name, []);
      past.of.get(name).push({ at, rate: point.generators[name] ?? 0, reserve: null, used: null });
    }
  });
}

// The calls of the last minutes, as far as this window has their times; else those since the start.
export function recent(of) {
  const known = past.all.filter((point) => point[of]);
  const [first, last] = [known[0], known.at(-1)];
  const window = since(last[of], first[of]);
  return window.count > 0 ? { ...window, lately: true } : { ...last[of], lately: false };
}

export const sessionsOf = (status) => status.sessions.login + status.sessions.idle + status.sessions.busy;
