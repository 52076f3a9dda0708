// Numbers for people: separators, units, few digits.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
export const count = (value) => (typeof value === "string" ? whole.format(BigInt(value)) : whole.format(value));
// A number for people: one with more than fifteen digits becomes a power of ten.
export function people(value) {
  const digits = String(value);
  if (digits.length <= 15) return count(value);
  const power = [...String(digits.length - 1)].map((digit) => "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[digit]).join("");
  return `${digits[0]}.${digits.slice(1, 3)} \u00d7 10${power}`;
}

// The time that so many ids last at this rate; null: none are taken.
export function lasts(ids, perSecond) {
  if (ids === null || !(perSecond > 0)) return null;
  const years = Number(ids) / perSecond / (86400 * 365);
  return years >= 1e6 ? "more than a million years left" : years >= 2 ? `${count(years)} years left` : `${duration(Number(ids) / perSecond)} left`;
}

const number = (value, digits) => new Intl.NumberFormat("en-US", { maximumFractionDigits: digits }).format(value);
export const rate = (value) => number(value, value > 0 && value < 1 ? 2 : value < 100 ? 1 : 0);

export function duration(seconds) {
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

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${number(value, at && value < 100 ? 1 : 0)} ${units[at]}`;
}

export function percent(share) {
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

export function within(timed, share) {
  if (!timed.count) return "\u2014";
  const time = quantile(timed, share);
  const last = timed.buckets.length ? timed.buckets[timed.buckets.length - 1][0] : 0;
  return time === null ? `> ${duration(last)}` : duration(time);
}

export const time = (seconds) => new Date(seconds * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
