// Statements, times, sessions, rules and the fleet.

import { $, pairs, say, table } from "./dom.js";
import { bytes, count, duration, rate, time, within } from "./numbers.js";
import { OUTCOMES } from "./tiles.js";

export function showTables(status) {
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
    ["files as read last", rules.good === null ? null : rules.good ? "are in force" : "are not in force: older rules act"],
  ]);
  table("#fleet", status.fleet.proxies.map((proxy) =>
    [`${proxy.name}${proxy.self ? " (this one)" : ""}`, proxy.address, proxy.version, proxy.since]));
  $("#fleet").hidden = status.fleet.proxies.length === 0;
  const alone = status.about.store === "embedded" ? "This one alone: its store is a file." : "No proxy has its name in the store.";
  $("#fleet-trouble").hidden = status.fleet.proxies.length > 0;
  say($("#fleet-trouble"), status.fleet.trouble ?? alone);
}
