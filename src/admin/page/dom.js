// The page's elements.

export const $ = (selector, place = document) => place.querySelector(selector);

export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// Only what has changed is written: a selection or the focus stays.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function table(selector, lines) {
  const body = $(`${selector} tbody`);
  const heads = $(`${selector} thead tr`).children;
  while (body.children.length > lines.length) body.lastChild.remove();
  lines.forEach((line, at) => {
    if (!body.children[at]) body.append(el("tr"));
    const tr = body.children[at];
    // A cell has the class of its column's head: numbers stand to the right.
    while (tr.children.length < line.length) tr.append(el("td", { class: heads[tr.children.length]?.className ?? "" }));
    line.forEach((text, nth) => say(tr.children[nth], text));
  });
}

export function pairs(place, lines) {
  const shown = lines.filter(([, value]) => value !== null && value !== undefined);
  while (place.children.length > 2 * shown.length) place.lastChild.remove();
  while (place.children.length < 2 * shown.length) place.append(el("dt"), el("dd"));
  shown.forEach(([name, value], at) => {
    say(place.children[2 * at], name);
    say(place.children[2 * at + 1], value);
  });
}
