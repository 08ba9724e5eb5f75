// Source and answer joined by ribbons, as wide as the share of the answer token that comes from there.

import { svg, clipped, exact, listbox, percent, textWidth } from "./look-dom.js";

const TOKEN_FONT = "500 15px system-ui, sans-serif";
const PAD = 9;
const GAP = 6;
const FAINT = 0.05; // shares below this are drawn for the chosen token only
const TALL = 30;

function boxes(tokens) { return tokens.map((token) => Math.max(34, Math.ceil(textWidth(token, TOKEN_FONT)) + 2 * PAD)); }

function total(widths) { return widths.reduce((sum, width) => sum + width + GAP, -GAP); }

// where every token stands: in two rows if they fit, else in two columns
function layout(source, answer, width) {
  const above = boxes(source);
  const below = boxes(answer);
  const needed = Math.max(total(above), total(below));
  if (needed <= width) {
    const line = (widths, y) => {
      const stretch = Math.min(2.5, (0.94 * width) / needed);
      let x = (width - total(widths.map((w) => w * stretch))) / 2;
      return widths.map((w) => { const box = { x, y, w: w * stretch, h: TALL }; x += w * stretch + GAP; return box; });
    };
    return { across: true, height: 278, source: line(above, 12), answer: line(below, 214) };
  }
  const wide = Math.min(0.34 * width, Math.max(...above, ...below));
  const step = TALL + 4;
  const list = (tokens, x) => tokens.map((_, i) => ({ x, y: 6 + i * step, w: wide, h: TALL }));
  const right = Math.min(width - wide - 52, 560);
  return { across: false, height: Math.max(source.length, answer.length) * step + 12, source: list(source, 2), answer: list(answer, right) };
}

// the ends of a ribbon: parts of the edges of two boxes
function ribbon(across, from, to, [s0, s1], [t0, t1]) {
  if (across) {
    const [y0, y1] = [from.y + from.h + 2, to.y - 2];
    const mid = (y0 + y1) / 2;
    return `M${s0} ${y0}C${s0} ${mid} ${t0} ${mid} ${t0} ${y1}L${t1} ${y1}C${t1} ${mid} ${s1} ${mid} ${s1} ${y0}Z`;
  }
  const [x0, x1] = [from.x + from.w + 2, to.x - 2];
  const mid = (x0 + x1) / 2;
  return `M${x0} ${s0}C${mid} ${s0} ${mid} ${t0} ${x1} ${t0}L${x1} ${t1}C${mid} ${t1} ${mid} ${s1} ${x0} ${s1}Z`;
}

function chip(token, box, tint, opacity) {
  const frame = (kind, more = {}) => svg("rect", { class: kind, x: box.x, y: box.y, width: box.w, height: box.h, rx: 7, ...more });
  return [frame("ground"), frame(tint, { "fill-opacity": opacity.toFixed(3) }), frame("rim"),
    svg("text", { class: "word", x: box.x + box.w / 2, y: box.y + 20 }, clipped(token, box.w - 8, TOKEN_FONT))];
}

// draw the figure; joins is the matrix of shares (answer, source); choose(at) is called for an answer token
export function ribbons({ source, answer, joins, probability, at, width, choose, label }) {
  const laid = layout(source, answer, width);
  const { across } = laid;
  const share = (i, j) => (joins ? joins.values[i * joins.columns + j] : 0);
  const incoming = source.map((_, j) => answer.reduce((sum, _token, i) => sum + share(i, j), 0));
  const shrink = 1 / Math.max(1, ...incoming);
  const edge = (box) => (across ? [box.x, box.w] : [box.y, box.h]);
  const used = source.map((_, j) => (1 - incoming[j] * shrink) / 2);
  const paths = [];
  answer.forEach((_, i) => {
    let offset = 0;
    source.forEach((_token, j) => {
      const value = share(i, j);
      const [start, began] = [used[j], offset];
      used[j] += value * shrink;
      offset += value;
      if (value < (i === at ? 0.01 : FAINT)) return;
      const [s, sSize] = edge(laid.source[j]);
      const [t, tSize] = edge(laid.answer[i]);
      const ends = [[s + start * sSize, s + used[j] * sSize], [t + began * tSize, t + offset * tSize]].map((pair) => pair.map((end) => end.toFixed(1)));
      paths.push({ i, j, value, d: ribbon(across, laid.source[j], laid.answer[i], ...ends) });
    });
  });
  paths.sort((a, b) => (a.i === at) - (b.i === at));
  const chosen = (j) => (at === null ? 0 : share(at, j));
  const height = laid.height;
  const options = svg("g", listbox(label, at, answer.length, choose, across ? "horizontal" : "vertical"), answer.map((token, i) => {
    const box = laid.answer[i];
    const p = probability(i);
    return svg(
      "g", {
        role: "option", "aria-selected": String(i === at), tabindex: i === at ? "0" : "-1", class: `token pick${i === at ? " chosen" : ""}`,
        "data-at": i, "aria-label": `${token}${p === null ? "" : `, probability ${percent(p)}`}`, onclick: () => choose(i, true),
      },
      chip(token, box, "doubt", p === null ? 0 : 0.62 * (1 - p)),
      p === null ? null : across
        ? svg("text", { class: "tiny middle", x: box.x + box.w / 2, y: box.y + 47 }, percent(p))
        : svg("text", { class: "tiny", x: box.x + box.w + 8, y: box.y + 20 }, percent(p)),
    );
  }));
  return svg(
    "svg", { class: "fig ribbons", width, height, viewBox: `0 0 ${width} ${height}`, "data-layout": across ? "rows" : "columns" },
    svg("g", { class: "joins" }, paths.map(({ i, j, value, d }) => svg(
      "path", {
        d, class: i === at ? "join now" : "join", "fill-opacity": (i === at ? 0.3 + 0.55 * value : 0.05 + 0.22 * value).toFixed(3),
        "data-from": j, "data-to": i,
      }, svg("title", {}, `${source[j]} → ${answer[i]}: ${exact(value)}`),
    ))),
    svg("g", { class: "source" }, source.map((token, j) => svg("g", { class: "token" }, chip(token, laid.source[j], "lit", 0.55 * chosen(j))))),
    options,
  );
}
