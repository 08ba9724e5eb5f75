// Bars: from where a token comes, and candidates with their probabilities.

import { svg, box, words, clipped, exact, short, signed } from "./look-dom.js";

const ROW = 24;
const SMALL = "13px system-ui, sans-serif";

// rows are { label, value, group?, mark? }; bars begin at 0, to the left of it where a value is negative
export function bars({ rows, width, label, form = short, most = null }) {
  const signs = rows.some((row) => row.value < 0);
  const left = Math.min(0.36 * width, Math.max(44, ...rows.map((row) => 9 * [...row.label].length + 14)));
  const right = 62;
  const room = Math.max(20, width - left - right);
  const largest = most ?? Math.max(1e-12, ...rows.map((row) => Math.abs(row.value)));
  const zero = left + (signs ? room / 2 : 0);
  const scale = (signs ? room / 2 : room) / largest;
  const items = [];
  let y = 0;
  let group = null;
  for (const row of rows) {
    if (row.group && row.group !== group) {
      y += group === null ? 0 : 8;
      group = row.group;
      items.push(words("tiny soft", 0, y + 13, group));
      y += 20;
    }
    const length = Math.max(1, Math.abs(row.value) * scale);
    items.push(
      words(`end${row.mark ? " strong" : ""}`, left - 9, y + 16, clipped(row.label, left - 12, SMALL)),
      box("track", left, y + 3, room, ROW - 8, { rx: 3 }),
      box(row.value < 0 ? "minus" : "plus", row.value < 0 ? zero - length : zero, y + 3, length, ROW - 8, { rx: 3 }),
      words("number", width, y + 16, svg("title", {}, exact(row.value)), signs ? signed(row.value) : form(row.value)),
    );
    y += ROW;
  }
  if (signs) items.push(svg("line", { class: "axis", x1: zero, x2: zero, y1: 0, y2: y }));
  return svg("svg", { class: "fig bars", role: "img", "aria-label": label, width, height: y + 2, viewBox: `0 0 ${width} ${y + 2}` }, items);
}

// the parts of a logit, one after the other: each begins where the one before ended, and the last ends at the logit
export function waterfall({ parts, logit, width, label, nameOf, open }) {
  const left = Math.min(0.42 * width, 150);
  const room = Math.max(20, width - left - 56);
  const steps = [];
  let sum = 0;
  for (const part of parts) { steps.push({ ...part, from: sum, to: sum + part.value }); sum += part.value; }
  const ends = [0, logit, ...steps.map((step) => step.to)];
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const x = (value) => left + ((value - low) / (high - low || 1)) * room;
  const items = [];
  steps.forEach((step, i) => {
    const y = i * ROW;
    const start = Math.min(x(step.from), x(step.to));
    const length = Math.max(1.5, Math.abs(x(step.to) - x(step.from)));
    const word = words("end name", left - 9, y + 16, clipped(nameOf(step.name), left - 12, SMALL));
    items.push(
      svg("g", { class: open(step.name) ? "part pick" : "part", "data-part": step.name, onclick: () => open(step.name)?.() },
        box("hit", 0, y, width, ROW),
        word,
        box(step.value < 0 ? "minus" : "plus", start, y + 3, length, ROW - 8, { rx: 2 }),
        i + 1 < steps.length ? svg("line", { class: "hair", x1: x(step.to), x2: x(step.to), y1: y + ROW - 5, y2: y + ROW + 3 }) : null,
        words("number", width, y + 16, signed(step.value))),
    );
  });
  const y = steps.length * ROW + 6;
  items.unshift(svg("line", { class: "axis", x1: x(0), x2: x(0), y1: 0, y2: y + ROW - 4 }));
  items.push(
    svg("line", { class: "hair", x1: 0, x2: width, y1: y - 4, y2: y - 4 }),
    words("end strong", left - 9, y + 16, "logit"),
    box("whole", Math.min(x(0), x(logit)), y + 3, Math.max(1.5, Math.abs(x(logit) - x(0))), ROW - 8, { rx: 2 }),
    words("number strong", width, y + 16, short(logit)),
  );
  const height = y + ROW;
  return svg("svg", { class: "fig waterfall", role: "img", "aria-label": label, width, height, viewBox: `0 0 ${width} ${height}` }, items);
}

// a ladder: the likely tokens at every layer, the last one at the bottom
export function ladder({ rungs, width, label, token }) {
  const left = 74;
  const cells = Math.max(1, ...rungs.map((rung) => rung.found.length));
  const cell = (width - left) / cells;
  const height = rungs.length * 34;
  return svg(
    "svg", { class: "fig ladder", role: "img", "aria-label": label, width, height, viewBox: `0 0 ${width} ${height}` },
    rungs.map((rung, i) => svg(
      "g", { "data-rung": i },
      words("tiny soft", 0, i * 34 + 20, rung.name),
      rung.found.map((one, k) => {
        const [x, y] = [left + k * cell, i * 34 + 4];
        const right = one.token === token;
        return [
          box("track", x, y, cell - 6, 26, { rx: 4 }),
          box(right ? "plus" : "other", x, y, Math.max(1, (cell - 6) * one.probability), 26, { rx: 4, "fill-opacity": 0.35 }),
          right ? box("ring", x, y, cell - 6, 26, { rx: 4 }) : null,
          svg("text", { class: right ? "strong" : "", x: x + 7, y: y + 17 },
            clipped(one.token, cell - 52, SMALL)),
          words("tiny end", x + cell - 11, y + 17, `${Math.round(100 * one.probability)}`,
            svg("title", {}, exact(one.probability))),
        ];
      }).flat(),
    )),
  );
}
