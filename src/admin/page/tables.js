// Statements, times, sessions, doors, rules and the fleet.

import { $, pairs, say, table } from "./dom.js";
import { bytes, count, duration, rate, time, within } from "./numbers.js";
import { OUTCOMES } from "./tiles.js";

const yes = (value) => (value === null ? "\u2014" : value ? "yes" : "no");

function showDoors({ doors, users }) {
  const on = doors.filter((each) => each.address !== null);
  $("#doors-card").hidden = on.length === 0 && users.busiest.length === 0;
  table("#doors", on.map((each) =>
    [each.protocol, each.open ? each.address : `${each.address} (not open)`, each.tls, count(each.clients), rate(each.requests.per_second),
      count(each.refused), rate(each.ids.per_second), count(each.ids.total), count(each.logins_refused)]));
  $("#doors").hidden = on.length === 0;
  table("#busiest", users.busiest.map((each) =>
    [each.user, rate(each.ids.per_second), count(each.ids.total), count(each.denied), count(each.over_quota)]));
  $("#busiest").hidden = users.busiest.length === 0;
  const known = users.age_seconds === null ? "those of the store are not known yet"
    : `${count(users.store)} of the store, read ${duration(Math.max(1, Math.round(users.age_seconds)))} ago`;
  say($("#users"), `Users: ${count(users.file)} of rowstamp.toml; ${known}.${users.busiest.length ? "" : " No user asked for ids since the start."}`);
}

export function showTables(status) {
  table("#servers", status.backends.map((each) =>
    [each.address, each.primary ? "primary" : "", yes(each.up), yes(each.read_only), count(each.connect_errors), each.last_error ?? ""]));

  const filled = Object.entries(status.tables);
  filled.sort(([, a], [, b]) => b.overtaken.per_second - a.overtaken.per_second || b.ids.per_second - a.ids.per_second || b.ids.total - a.ids.total);
  const overtaken = (each) => (each.overtaken.total ? count(each.overtaken.total) : "");
  table("#tables", filled.slice(0, 20).map(([name, each]) => [name, rate(each.statements.per_second), rate(each.ids.per_second), count(each.ids.total), overtaken(each)]));
  $("#overtaken").hidden = !filled.some(([, each]) => each.overtaken.total);
  say($("#more-tables"), filled.length > 20 ? `20 of ${count(filled.length)} tables: those that are overtaken, and the busiest.` : filled.length ? "" : "No table got ids since the start.");

  table("#clients", status.clients.map((each) => [each.user, each.host || "(socket)", count(each.sessions), count(each.busy), count(each.statements)]));
  $("#no-clients").hidden = status.clients.length > 0;
  $("#clients").hidden = status.clients.length === 0;

  showDoors(status);

  table("#refused-statements", status.refused_statements.map((each) => [each.statement, each.why, count(each.count), time(each.last)]));
  $("#refused-statements").hidden = status.refused_statements.length === 0;
  $("#none-refused").hidden = status.refused_statements.length > 0;

  table("#events", status.events.slice(0, 15).map((each) => [time(each.at), each.level, each.text]));

  const counted = ([name, each]) => [name.replaceAll("_", " "), rate(each.per_second), count(each.total)];
  const outcomes = Object.entries(status.statements);
  outcomes.sort(([a], [b]) => OUTCOMES.indexOf(a) - OUTCOMES.indexOf(b));
  table("#statements", outcomes.map(counted));
  const refused = Object.entries(status.refused).filter(([, each]) => each.total > 0);
  refused.sort(([, a], [, b]) => b.total - a.total);
  table("#refused", refused.map(counted));
  $("#refused").hidden = refused.length === 0;

  const timed = (name, each) => [name, count(each.count), each.count ? duration(each.seconds / each.count) : "\u2014", within(each, 0.99)];
  table("#times", [
    timed("a command, to the end of its answer", status.latency),
    timed("of that, the server's share", status.server_latency),
    timed("the proxy's own time, for a statement with ids", status.rewrite),
    timed("waiting for ids", status.id_wait),
    ...Object.entries(status.store).map(([operation, each]) => timed(`store: ${operation}`, each)),
  ]);
  const { sessions, traffic } = status;
  const flow = (direction) => traffic[direction] && `${bytes(traffic[direction].per_second)}/s, ${bytes(traffic[direction].total)} in total`;
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
    ["active since", rules.since === null ? null : time(rules.since)],
    ["files that were read last", rules.good === null ? null : rules.good ? "active" : "not active: older rules are active"],
  ]);
  table("#fleet", status.fleet.proxies.map((proxy) =>
    [`${proxy.name}${proxy.self ? " (this one)" : ""}`, proxy.address, proxy.version, proxy.since]));
  $("#fleet").hidden = status.fleet.proxies.length === 0;
  const alone = status.about.store === "embedded" ? "This proxy is alone: its store is a file." : "No proxy has its name in the store.";
  $("#fleet-trouble").hidden = status.fleet.proxies.length > 0;
  say($("#fleet-trouble"), status.fleet.trouble ?? alone);
}
