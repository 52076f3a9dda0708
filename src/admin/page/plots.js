// Small plots of the last ten minutes, as SVG.

import { duration } from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";
export const SPAN_MS = 10 * 60 * 1000;
// A plot that is younger than this is drawn as if it were so old: two points are no line.
const SPAN_MIN_MS = 60 * 1000;

function make(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent?.append(element);
  return element;
}

const MINUTE = 60, HOUR = 3600, DAY = 86400;
const TIMES = [10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY];

// The next round number that is not below.
function nice(max, format) {
  if (!(max > 0)) return 1;
  if (format === duration && max > 5) {
    const time = TIMES.find((each) => each >= max * 0.999);
    if (time) return time;
  }
  const power = 10 ** Math.floor(Math.log10(max));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= max * 0.999);
}

// Runs of neighbours that are known; a gap is where nothing was measured.
function runs(points) {
  const all = [[]];
  for (const point of points) {
    if (point[1] === null) all.push([]);
    else all[all.length - 1].push(point);
  }
  return all.filter((run) => run.length);
}

// series: [{ points: [[milliseconds, number or null]], name, kind }], kind being a class. options: now, format, label, bare
// (a line and nothing else), dots (what was measured now and then).
export function plot(place, series, options) {
  place.data = { series, options };
  if (!place.observed) {
    place.observed = new ResizeObserver(() => draw(place));
    place.observed.observe(place);
    place.addEventListener("pointermove", (event) => {
      place.pointer = event.clientX - place.getBoundingClientRect().left;
      draw(place);
    });
    place.addEventListener("pointerleave", () => {
      place.pointer = null;
      draw(place);
    });
  }
  draw(place);
}

// Each on top of those before it; what is not known counts as nothing.
function piled(series) {
  const below = new Map();
  return series.map((each) => ({ ...each, points: each.points.map(([at, value]) => {
    const from = below.get(at) ?? 0;
    below.set(at, from + (value ?? 0));
    return [at, from + (value ?? 0), from];
  }) }));
}

function draw(place) {
  const { options } = place.data;
  const series = options.stacked ? piled(place.data.series) : place.data.series;
  const { clientWidth: width, clientHeight: height } = place;
  if (!width || !height) return;
  const values = series.flatMap(({ points }) => points.map((point) => point[1])).filter((value) => value !== null);
  const top = nice(Math.max(0, ...values), options.format);
  const [left, right, above, below] = options.bare ? [1, 1, 3, 2] : [0, 0, 14, 3];
  const oldest = Math.min(...series.flatMap(({ points }) => points.slice(0, 1).map(([time]) => time)));
  const span = Math.max(SPAN_MIN_MS, Math.min(SPAN_MS, options.now - oldest));
  const x = (time) => left + (1 - (options.now - time) / span) * (width - left - right);
  const y = (value) => above + (1 - value / top) * (height - above - below);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": described(place.data.series, options, values) });
  if (!options.bare) {
    for (const value of [0, top / 2, top]) {
      make("line", { class: "grid", x1: 0, x2: width, y1: y(value), y2: y(value) }, svg);
    }
    make("text", { class: "scale", x: 0, y: above - 4 }, svg).textContent = options.format(top);
    const from = make("text", { class: "scale", x: width, y: above - 4, "text-anchor": "end" }, svg);
    from.textContent = `last ${duration(Math.round(span / 1000))}`;
  }
  series.forEach(({ points, kind = "" }, nth) => {
    for (const run of runs(points)) {
      const path = run.map(([time, value], at) => `${at ? "L" : "M"}${x(time).toFixed(1)},${y(value).toFixed(1)}`).join("");
      if (options.stacked && run.length > 1) {
        const floor = run.toReversed().map(([time, , from]) => `L${x(time).toFixed(1)},${y(from).toFixed(1)}`).join("");
        make("path", { class: `pile ${kind}`, d: `${path}${floor}Z` }, svg);
      } else if (nth === 0 && run.length > 1 && !options.dots) {
        const [first, last] = [run[0][0], run[run.length - 1][0]];
        make("path", { class: `area ${kind}`, d: `${path}L${x(last).toFixed(1)},${y(0)}L${x(first).toFixed(1)},${y(0)}Z` }, svg);
      }
      if (run.length > 1 && !options.stacked) make("path", { class: `line ${kind}`, d: path }, svg);
      if (options.dots || run.length === 1) {
        for (const [time, value] of run) make("circle", { class: "dot", cx: x(time), cy: y(value), r: 2 }, svg);
      }
    }
  });
  place.replaceChildren(svg);
  point(place, svg, { x, y, width, height });
}

function described(series, options, values) {
  if (!values.length) return `${options.label}: no values yet`;
  const of = ({ points, name }) => {
    const last = points.findLast((each) => each[1] !== null);
    return last ? `${name ? `${name} ` : ""}${options.format(last[1])}` : "";
  };
  const now = series.map(of).filter(Boolean).join(", ");
  return `${options.label}: now ${now}; at most ${options.format(Math.max(...values))}`;
}

// The values under the pointer.
function point(place, svg, { x, width, height }) {
  if (place.pointer == null) return;
  const { series, options } = place.data;
  const nearest = (points) => points
    .filter((each) => each[1] !== null)
    .reduce((best, each) => (best && Math.abs(x(best[0]) - place.pointer) <= Math.abs(x(each[0]) - place.pointer) ? best : each), null);
  const found = series.map(({ points, name }) => ({ name, at: nearest(points) })).filter(({ at }) => at);
  if (!found.length) return;
  const at = x(found[0].at[0]);
  make("line", { class: "hair", x1: at, x2: at, y1: 0, y2: height }, svg);
  const tip = document.createElement("span");
  tip.className = "tip";
  const texts = found.map(({ name, at: [, value] }) => `${name ? `${name} ` : ""}${options.format(value)}`);
  tip.textContent = `${new Date(found[0].at[0]).toLocaleTimeString("en-GB")}  ${texts.join(" · ")}`;
  place.append(tip);
  const room = width - tip.offsetWidth;
  tip.style.left = `${Math.max(0, Math.min(room, at - tip.offsetWidth / 2))}px`;
}
