// The tree of a beam search: a column for every step, the winning path straight along the top.

import { html, svg, box, words, clipped, exact, movement, percent, textWidth } from "./look-dom.js";
import { figure } from "./look-figure.js";

const TREE_FONT = "500 14px system-ui, sans-serif";
const CHIP = 27; // pixels of a token's box
const LANE = 50;
const BETWEEN = 30;
const START = 24; // where the first column begins
const SAID = { finished: "an answer", stopped: "an answer, at the length limit", cut: "cut: others were better", continued: "continued" };

// the nodes with what the drawing needs; in every column they stand in the order of their parents, so that no lines cross
export function treeOf(look) {
  const nodes = (look.held.beam || []).map((held, at) => ({ ...held, at, token: look.token(held.token), children: [], wins: held.rank === 1 }));
  const columns = [];
  for (const node of nodes) {
    node.above = node.parent === null ? null : nodes[node.parent];
    node.column = node.above ? node.above.column + 1 : 0;
    node.p = Math.exp(node.log_probability - (node.above?.log_probability ?? 0));
    node.path = [...(node.above?.path || []), node.token];
    node.above?.children.push(node);
    (columns[node.column] ||= []).push(node);
  }
  for (let node = nodes.find((one) => one.wins); node; node = node.above) node.wins = true;
  for (const column of columns) {
    column.sort((a, b) => (a.above?.lane ?? 0) - (b.above?.lane ?? 0) || b.wins - a.wins || b.log_probability - a.log_probability);
    column.forEach((node, lane) => { node.lane = lane; });
  }
  return { nodes, columns };
}

function spoken(node) {
  const fate = node.rank ? `${SAID[node.fate]}, number ${node.rank}` : node.fate === "finished" ? "ended, then better ones were found" : SAID[node.fate];
  return `${node.path.join(" ")}: log p ${exact(node.log_probability)}, ${node.token} ${percent(node.p)}, ${fate}`;
}

// where an arrow key leads: along the tree, or up and down in a column
function neighbour(node, step, { nodes, columns }) {
  if (step.to) return step.to === "start" ? nodes[0] : nodes.find((one) => one.rank === 1) || nodes.at(-1);
  if (step.down) return columns[node.column][node.lane + step.down];
  return step.across < 0 ? node.above : [...node.children].sort((a, b) => a.lane - b.lane)[0];
}

function treePicture(tree, state, readout, width) {
  const { nodes, columns } = tree;
  const wide = Math.min(90, Math.max(30, ...nodes.map((node) => Math.ceil(textWidth(node.token, TREE_FONT)) + 16)));
  const pitch = Math.max(wide + BETWEEN, Math.min(2 * wide + BETWEEN, (width - START - 36) / columns.length));
  const x = (node) => START + node.column * pitch;
  const y = (node) => 6 + node.lane * LANE;
  const size = [START + (columns.length - 1) * pitch + wide + 28, Math.max(...columns.map((column) => column.length)) * LANE + 4];
  const join = (node) => {
    const [x0, y0, x1, y1] = [node.above ? x(node.above) + wide : 5, y(node.above || { lane: 0 }) + CHIP / 2, x(node), y(node) + CHIP / 2];
    const mid = (x0 + x1) / 2;
    return svg("path", { class: `limb${node.wins ? " wins" : ""}`, "data-to": node.at, "stroke-width": (1 + 5 * node.p).toFixed(2), d: `M${x0} ${y0}C${mid} ${y0} ${mid} ${y1} ${x1} ${y1}` });
  };
  const chip = (node) => {
    const frame = (kind, more) => box(kind, x(node), y(node), wide, CHIP, { rx: node.fate === "finished" ? CHIP / 2 : 7, ...more });
    return svg(
      "g", {
        role: "option", class: `node${node.wins ? " wins" : ""}${node.fate === "cut" ? " cut" : ""}${node.rank ? " ranked" : ""}`, "data-node": node.at, tabindex: "-1",
        "aria-label": spoken(node), "aria-selected": "false", onpointerenter: () => point(node), onclick: () => point(node, true),
      },
      frame("ground"), frame("doubt", { "fill-opacity": ((node.fate === "cut" ? 0.17 : 0.34) * (1 - node.p)).toFixed(3) }), frame("rim"),
      svg("text", { class: "word", x: x(node) + wide / 2, y: y(node) + 18 }, clipped(node.token, wide - 8, TREE_FONT)),
      words("tiny middle soft", x(node) + wide / 2, y(node) + CHIP + 13, percent(node.p)),
      node.rank ? [svg("circle", { class: "rank", cx: x(node) + wide + 15, cy: y(node) + CHIP / 2, r: 10 }),
        words("tiny middle inverse", x(node) + wide + 15, y(node) + CHIP / 2 + 4, node.rank)] : null,
    );
  };
  const options = new Map(nodes.map((node) => [node, chip(node)]));
  const limbs = new Map(nodes.map((node) => [node, join(node)]));
  const point = (node, focus = false) => {
    state.node = node.at;
    for (const drawing of [...options.values(), ...limbs.values()]) drawing.classList.remove("pointed");
    for (let one = node; one; one = one.above) [options, limbs].forEach((drawings) => drawings.get(one).classList.add("pointed"));
    for (const [one, option] of options) {
      option.setAttribute("aria-selected", String(one === node));
      option.setAttribute("tabindex", one === node ? "0" : "-1");
    }
    readout.textContent = spoken(node);
    if (focus) options.get(node).focus();
  };
  const onkeydown = (event) => {
    const step = movement(event);
    if (!step) return;
    event.preventDefault();
    const next = neighbour(nodes[state.node], step, tree);
    if (next) point(next, true);
  };
  const picture = svg(
    "svg", { class: "fig tree", width: size[0], height: size[1], viewBox: `0 0 ${size[0]} ${size[1]}` },
    svg("circle", { class: "whole", cx: 5, cy: y({ lane: 0 }) + CHIP / 2, r: 4 }),
    [...limbs].sort((a, b) => a[0].wins - b[0].wins).map(([, limb]) => limb),
    svg("g", { role: "listbox", "aria-label": "Hypotheses of the beam search", onkeydown }, [...options.values()]),
  );
  point(nodes[state.node]);
  return picture;
}

// the figure, or null where nothing was searched with a beam
export function treeFigure(look) {
  const tree = treeOf(look);
  const { nodes, columns } = tree;
  if (!nodes.length) return null;
  const state = { node: (nodes.find((node) => node.rank === 1) || nodes[0]).at };
  const readout = html("p", { class: "readout" });
  const made = figure({
    title: "What the search tried", name: "beam", level: "h2",
    draw: (width) => html("div", { class: "scroll" }, treePicture(tree, state, readout, width)),
    table: () => ({
      head: ["hypothesis", "log p", "score", "p of the token", "what became of it"],
      rows: nodes.map((node) => [node.path.join(" "), exact(node.log_probability), exact(node.score), exact(node.p), node.rank ? `answer ${node.rank}` : node.fate]),
    }),
  });
  return html("section", { class: "beam" }, made.element, readout,
    html("p", { class: "note" }, `A beam search extends the best hypotheses side by side: ${nodes.length} in ${columns.length} steps. Lines are as strong as the token is probable; numbers are the answers by rank, the winner along the top.`));
}
