// Shows /status.json, asked for every two seconds.

import { $, el, say } from "./dom.js";
import { showGenerators } from "./generators.js";
import { count, duration } from "./numbers.js";
import { recall, remember } from "./past.js";
import { showTables } from "./tables.js";
import { showTiles } from "./tiles.js";

const POLL_MS = 2000;
const TIMEOUT_MS = 5000;
// Generators whose trouble is shown. If their store is away, thousands have the same.
const TROUBLED_MAX = 10;

function showChecks(status) {
  $("#checks").replaceChildren(...status.checks.map((check) => el("li", { "data-check": check.name },
    el("span", { class: "name" }, check.name),
    el("span", { class: `pill ${!check.trouble ? "good" : check.needed ? "bad" : "warn"}` }, check.trouble ? "trouble" : "fine"),
    el("span", { class: "why" }, check.trouble ?? ""))));
  const draining = status.about.draining;
  const [word, kind] = draining ? ["draining", "warn"]
    : !status.ready ? ["not ready", "bad"]
    : status.degraded ? ["degraded", "warn"]
    : ["ready", "good"];
  say($("#ready"), word);
  $("#ready").className = `pill ${kind}`;
  const troubled = status.generators.filter((each) => each.trouble);
  const states = [...new Set(troubled.map((each) => each.state))];
  const more = troubled.length - TROUBLED_MAX;
  // The check of the generators says the same as their own lines.
  const troubles = [
    ...status.checks.filter((check) => check.trouble && check.name !== "generators").map((check) => `${check.name}: ${check.trouble}`),
    ...troubled.slice(0, TROUBLED_MAX).map((each) => `${each.name} is ${each.state}: ${each.trouble}`),
    ...(more > 0 ? [`and ${count(more)} more; the filter of the list finds them by their state: ${states.join(", ")}`] : []),
    ...(status.rules.good === false ? ["older rules are active: the files that were read last could not be loaded (the log says why)"] : []),
  ];
  $("#trouble").hidden = troubles.length === 0;
  say($("#trouble"), troubles.join("\n"));
}

function showAbout(status) {
  const { about } = status;
  document.title = `${status.ready && !status.degraded ? "" : "\u26a0 "}${about.name} \u2013 Rowstamp`;
  say($("#name"), about.name);
  const lines = [
    ["listens on", about.listen],
    ["server", about.backends.join(", ")],
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
  const old = answered ? ` The data on this page is ${duration(Math.max(1, Math.round((Date.now() - answered) / 1000)))} old.` : "";
  $("#away").hidden = false;
  say($("#away"), `The proxy does not answer (${error}).${old} Asking again every ${POLL_MS / 1000} s.`);
  say($("#ready"), answered ? "away" : "");
  $("#ready").className = "pill bad";
}

async function ask(path) {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  return response.json();
}

function reason(error) {
  return error.name === "TimeoutError" ? `no answer within ${TIMEOUT_MS / 1000} s` : error.message.startsWith("HTTP") ? error.message : "no connection";
}

async function turn() {
  const begun = Date.now();
  let status = null;
  try {
    status = await ask("status.json");
  } catch (error) {
    away(reason(error));
  }
  if (status) {
    answered = Date.now();
    document.body.classList.remove("away");
    $("#away").hidden = true;
    show(status, answered);
    say($("#updated"), `As of ${new Date(answered).toLocaleTimeString("en-GB")}, refreshes every ${POLL_MS / 1000} s.`);
  }
  setTimeout(turn, Math.max(0, POLL_MS - (Date.now() - begun)));
}

// If the history cannot be loaded, the plots begin now.
async function begin() {
  try {
    recall(await ask("history.json"));
  } catch {
    // The first turn says what is wrong.
  }
  turn();
}

begin();
