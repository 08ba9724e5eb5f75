// Running text: tokens one after the other, tinted, one of them chosen, with lines to where it comes from.

import { html, svg, box, words, listbox, percent } from "./look-dom.js";

// items are { text, tint (0 to 1), kind: "doubt" | "plus" | "minus" | "given", note, pick }; at is the chosen item
export function flow({ items, at, label, choose, lines = [] }) {
  const spans = items.map((item, i) => {
    const begins = item.text.startsWith("␣");
    const span = html(
      "span", {
        class: `piece ${item.kind || ""}${i === at ? " chosen" : ""}${begins ? " begins" : ""}`,
        role: choose ? "option" : null, "aria-selected": choose ? String(i === at) : null, "data-at": i,
        tabindex: choose ? (i === at ? "0" : "-1") : null, title: item.note || null,
        "aria-label": choose ? `${item.text}${item.note ? `, ${item.note}` : ""}` : null,
        onclick: choose && item.pick !== false ? () => choose(i, true) : null,
      },
      begins ? item.text.slice(1) || "␣" : item.text,
    );
    span.style.setProperty("--tint", `${Math.round(100 * Math.min(1, item.tint || 0))}%`);
    return span;
  });
  const over = svg("svg", { class: "fig lines", "aria-hidden": "true" });
  const text = html("div", { class: "text", ...(choose ? listbox(label, at, items.length, choose) : {}) }, spans);
  const whole = html("div", { class: "flow" }, over, text);
  requestAnimationFrame(() => draw(whole, over, spans, at, lines));
  return whole;
}

// arcs from the chosen token to the tokens that it reads; lines are [item, share]
function draw(whole, over, spans, at, lines) {
  const home = whole.getBoundingClientRect();
  if (!lines.length || !spans[at] || !home.width) return;
  over.setAttribute("viewBox", `0 0 ${home.width} ${home.height}`);
  over.setAttribute("width", home.width);
  over.setAttribute("height", home.height);
  const boxOf = (span) => span.getBoundingClientRect();
  const to = boxOf(spans[at]);
  over.replaceChildren(...lines.filter(([i]) => spans[i]).map(([i, share]) => {
    const from = boxOf(spans[i]);
    const [x0, x1] = [from.left + from.width / 2 - home.left, to.left + to.width / 2 - home.left];
    const [y0, y1] = [from.top - home.top, to.top - home.top];
    const lift = Math.min(y0, y1) - Math.min(46, 12 + Math.abs(x1 - x0) / 9);
    return svg("path", { class: "arc", d: `M${x0} ${y0}C${x0} ${lift} ${x1} ${lift} ${x1} ${y1}`,
      "stroke-width": (0.8 + 5 * share).toFixed(2), "stroke-opacity": (0.25 + 0.7 * share).toFixed(2) });
  }));
}

// the text and its lines as SVG, for a file
export function flowPicture(whole) {
  const home = whole.getBoundingClientRect();
  const over = whole.querySelector("svg.lines");
  const body = [...whole.querySelectorAll(".piece")].map((span) => {
    const area = span.getBoundingClientRect();
    const [x, y] = [area.left - home.left, area.top - home.top];
    const tint = parseFloat(span.style.getPropertyValue("--tint")) / 100 || 0;
    const kind = span.classList.contains("minus") || span.classList.contains("doubt") ? "doubt" : "lit";
    return [
      box(kind, x, y, area.width, area.height, { rx: 4, "fill-opacity": (0.6 * tint).toFixed(3) }),
      span.classList.contains("chosen") ? box("ring", x, y, area.width, area.height, { rx: 4 }) : null,
      words("word", x + area.width / 2, y + area.height * 0.7, span.textContent),
    ];
  });
  return svg("svg", { class: "fig", width: home.width, height: home.height, viewBox: `0 0 ${home.width} ${home.height}` },
    [...over.childNodes].map((node) => node.cloneNode(true)), body);
}

export function surprisal(p) { return p === null ? null : -Math.log2(Math.max(p, 1e-12)); }

export function doubtItem(text, p) {
  if (p === null) return { text, kind: "given", tint: 0, note: "given" };
  return { text, kind: "doubt", tint: Math.min(1, surprisal(p) / 10), note: `${percent(p)}, ${surprisal(p).toFixed(1)} bits` };
}
