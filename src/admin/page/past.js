// The last ten minutes of what was answered, in this window alone.

import { SPAN_MS } from "./plots.js";

export const past = { all: [], of: new Map() };
let before = null;

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

export const sessionsOf = (status) => status.sessions.login + status.sessions.idle + status.sessions.busy;
