// All heads: small pictures in a grid, the most important first; one of them enlarged.

import { html, exact, isNumber, movement, percent, radios, short, sumOf } from "./look-dom.js";
import { rowOf } from "./look-data.js";
import { figure } from "./look-figure.js";
import { imageOf, matrixPicture, matrixTable, matrixView } from "./look-matrix.js";

const SIDE = 76; // pixels of a small picture
const NAMES = { cross: "cross: answer reads source", decoder: "decoder: answer reads itself", encoder: "encoder: source reads itself" };

function small(found) {
  const image = imageOf(found);
  const canvas = html("canvas", { width: 2 * SIDE, height: 2 * SIDE, "aria-hidden": "true" });
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = image.width > 2 * SIDE;
  pen.drawImage(image, 0, 0, 2 * SIDE, 2 * SIDE);
  return canvas;
}

function ordered(look, names, order) {
  if (order === "layer") return names;
  const rank = (name) => look.about(name)?.importance ?? look.about(name)?.score ?? 0;
  return [...names].sort((a, b) => rank(b) - rank(a));
}

// what is known about a head
function told(about) {
  if (!about) return [];
  const score = isNumber(about.score) ? ` (${short(about.score)})` : "";
  return [about.role && `role: ${about.role}${score}`, isNumber(about.importance) && `importance ${exact(about.importance)}`].filter(Boolean);
}

function card(look, state, name, most, choose) {
  const [stack, layer, head] = name.split(".");
  const about = look.about(name);
  const found = look.named(name, state.weights);
  const importance = about?.importance;
  const words = [name, ...told(about)].join(", ");
  const cell = html(
    "div", {
      role: "gridcell", class: `head${state.head === name ? " chosen" : ""}`, "data-head": name, tabindex: "-1",
      "aria-label": words, "aria-selected": String(state.head === name), onclick: () => choose(name),
    },
    html("span", { class: "slot" }),
    html("b", {}, `${layer}.${head}`), about?.role && html("span", { class: "role" }, about.role),
    isNumber(importance) && html("meter", { min: 0, max: most, value: Math.max(0, importance), "aria-hidden": "true" }),
  );
  return { cell, draw: () => cell.firstChild.replaceWith(found ? small(found) : html("span", { class: "slot" }, "–")) };
}

// pictures are drawn when they come into sight
function lazily(cards) {
  const byCell = new Map(cards.map((one) => [one.cell, one]));
  const watching = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) {
      if (isIntersecting) { watching.unobserve(target); byCell.get(target).draw(); }
    }
  }, { rootMargin: "900px" });
  cards.forEach(({ cell }) => watching.observe(cell));
}

function gridOf(look, state, stack, choose) {
  const names = ordered(look, look.headNames(stack), state.order);
  const most = Math.max(1e-9, ...(look.held.heads || []).map((head) => head.importance || 0));
  const cards = names.map((name) => card(look, state, name, most, choose));
  const layers = state.order === "layer" ? [...new Set(names.map((name) => name.split(".")[1]))] : null;
  const rows = layers ? layers.map((layer) => cards.filter((_, i) => names[i].split(".")[1] === layer)) : [cards];
  const grid = html(
    "div", { role: "grid", class: "heads", "aria-label": `Heads, ${NAMES[stack] || stack}` },
    rows.map((row) => html("div", { role: "row" }, row.map((one) => one.cell))),
  );
  (cards.find((one) => one.cell.classList.contains("chosen")) || cards[0])?.cell.setAttribute("tabindex", "0");
  grid.addEventListener("keydown", (event) => {
    const cells = cards.map((one) => one.cell);
    const now = cells.indexOf(document.activeElement);
    if ((event.key === "Enter" || event.key === " ") && now >= 0) { event.preventDefault(); choose(names[now]); return; }
    const step = movement(event);
    if (!step || now < 0) return;
    event.preventDefault();
    const inRow = Math.max(1, cells.filter((cell) => cell.offsetTop === cells[0].offsetTop).length);
    const next = step.to ? (step.to === "start" ? 0 : cells.length - 1) : now + step.across + step.down * inRow;
    const to = cells[Math.max(0, Math.min(cells.length - 1, next))];
    cells.forEach((cell) => cell.setAttribute("tabindex", cell === to ? "0" : "-1"));
    to.focus();
  });
  lazily(cards);
  return html("section", { class: "stack" }, html("h3", {}, NAMES[stack] || stack), grid);
}

// what happens to the answer without the head, where the document says; a server answers anew; else how to find out
function without(look, name, act) {
  const logs = look.about(name)?.log_probabilities;
  if (!logs && !act.ask) return html("p", { class: "note" }, "Switch it off: ", html("code", {}, `clearhead look MODEL TEXT --without ${name}`));
  const changes = (logs || []).map((value, at) => ({ at, by: value === null ? 0 : Math.exp(value) - look.probability(at) }));
  const most = changes.sort((a, b) => Math.abs(b.by) - Math.abs(a.by)).slice(0, 3);
  const words = html("p", { class: "note", hidden: true }, `Without ${name}, log p of this answer is `, html("b", {}, exact(sumOf(logs || []))),
    `, with it ${exact(sumOf(look.held.log_probabilities))}. Probabilities change most for `,
    most.map(({ at, by }, i) => `${i ? ", " : ""}${look.answer[at]} ${percent(look.probability(at))} → ${percent(look.probability(at) + by)}`), ".");
  const off = look.held.without || [];
  const turn = (event) => {
    const on = event.target.checked;
    if (act.ask) { act.ask({ without: on ? off.filter((other) => other !== name) : [...off, name] }); return; }
    words.hidden = on;
    act.say(on ? `${name} on` : words.textContent);
  };
  return html("div", { class: "switch" }, html("label", {}, html("input", { type: "checkbox", role: "switch", checked: !look.isOff(name), onchange: turn }), " head on"), words);
}

// a row, and the largest of its cells
function largest(found, row) {
  const values = rowOf(found, row);
  return [row, values.indexOf(Math.max(...values))];
}

function enlarged(look, state, act) {
  const name = state.head;
  const [stack, layer, head] = name.split(".");
  const found = look.named(name, state.weights);
  if (!found) return html("p", { class: "note" }, `${name} was left out of this file.`);
  const { queries, keys } = look.labels(stack);
  const about = look.about(name);
  const made = figure({
    title: name, name: `head-${name}`,
    draw: (width) => matrixView({ found, queries, keys, width: Math.min(width, 620), label: `${name}: rows read columns`, at: largest(found, Math.min(look.row(state.at) ?? 0, found.rows - 1)) }),
    picture: () => matrixPicture(found, queries, keys), table: () => matrixTable(found, queries, keys),
  });
  return html("div", { class: "enlarged" }, made.element, html("p", { class: "note" }, told(about).join(" · ")), without(look, name, act));
}

export function headsPanel(look, state, act) {
  const stacks = ["cross", "decoder", "encoder"].filter((stack) => look.headNames(stack).length);
  if (stacks.flatMap((stack) => look.headNames(stack)).length < 2) return []; // one head is the first screen already
  const kinds = ["norms", "attention"].filter((kind) => look.stacks(kind).length);
  const ranked = (look.held.heads || []).some((head) => isNumber(head.importance));
  return [
    html("header", { class: "section-title" }, html("h2", { id: "heads" }, "Every head"),
      !ranked && act.ask && html("button", { type: "button", class: "quiet", onclick: () => act.ask({ heads: true, without: look.held.without || [] }) }, "how important is each?"),
      kinds.length > 1 ? radios("Show", kinds.map((kind) => [kind, kind]), state.weights, (kind) => act.set({ weights: kind })) : null,
      radios("Order", [["importance", ranked ? "most important first" : "clearest role first"], ["layer", "by layer"]], state.order, (order) => act.set({ order }))),
    html("div", { class: "headroom" },
      html("div", { class: "stacks" }, stacks.map((stack) => gridOf(look, state, stack, act.head))),
      html("div", { class: "side", id: "enlarged" }, state.head ? enlarged(look, state, act) : null)),
  ];
}
