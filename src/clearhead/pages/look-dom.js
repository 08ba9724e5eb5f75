// Elements, numbers as text, and announcements for screen readers.

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// an HTML element: html("p", { class: "note" }, "text", other)
export function html(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

// an SVG element
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

export function box(kind, x, y, width, height, more = {}) {
  return svg("rect", { class: kind, x, y, width, height, ...more });
}

export function words(kind, x, y, ...text) { return svg("text", { class: kind, x, y }, ...text); }

export function place(element, styles) {
  Object.assign(element.style, styles); // through the object model: the page's policy allows no style attributes
  return element;
}

// a number as the page shows it: six decimals, so that it differs from Python's by less than 1e-5
export function exact(value) {
  return value.toFixed(6).replace(/^-(0\.0+)$/, "$1").replace("-", "−");
}

export function short(value) {
  const size = Math.abs(value);
  const text = size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
  return text.replace(/^-(0\.0+)$/, "$1").replace("-", "−");
}

export function signed(value) {
  return value > 0 ? `+${short(value)}` : short(value);
}

export function percent(share) {
  if (share > 0 && share < 0.005) return "<1 %";
  return `${(100 * share).toFixed(share > 0.995 && share < 1 ? 1 : 0)} %`;
}

let ruler = null;

// the width of a text in pixels
export function textWidth(text, font = "14px system-ui, sans-serif") {
  ruler = ruler || document.createElement("canvas").getContext("2d");
  ruler.font = font;
  return ruler.measureText(text).width;
}

// a text that is no wider than so many pixels, with … in place of its end
export function clipped(text, width, font) {
  if (textWidth(text, font) <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && textWidth(`${letters.join("")}…`, font) > width) letters.pop();
  return `${letters.join("")}…`;
}

// what is chosen is said aloud, politely
export function announcer() {
  const region = html("p", { class: "hidden", "aria-live": "polite" });
  return { region, say: (text) => { region.textContent = text; } };
}

// arrow keys, Home and End as steps: { across, down } or { to: "start" | "end" }, or null for another key
export function movement(event) {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (event.key in steps) return { across: steps[event.key][0], down: steps[event.key][1] };
  if (event.key === "Home") return { to: "start" };
  if (event.key === "End") return { to: "end" };
  return null;
}

// the attributes of a list from which one is chosen by arrow keys
export function listbox(label, at, count, choose, orientation = "horizontal") {
  const onkeydown = (event) => {
    const step = movement(event);
    if (!step) return;
    event.preventDefault();
    const next = step.to ? (step.to === "start" ? 0 : count - 1) : at + step.across + step.down;
    choose(Math.max(0, Math.min(count - 1, next)), true);
  };
  return { role: "listbox", "aria-label": label, "aria-orientation": orientation, onkeydown };
}

export function sumOf(values) { return values.reduce((sum, value) => sum + (value ?? 0), 0); }

export function isNumber(value) { return value !== null && value !== undefined; }

// choices of which one holds, as radio buttons: options are [value, label]
let groups = 0;
export function radios(label, options, value, chosen) {
  groups += 1;
  return html(
    "fieldset", { class: "choice" }, html("legend", {}, label),
    options.map(([key, text]) => html(
      "label", {},
      html("input", { type: "radio", name: `choice${groups}`, value: key, checked: key === value, onchange: () => chosen(key) }),
      html("span", {}, text),
    )),
  );
}
