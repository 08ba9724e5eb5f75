// An answer as each family shows it: text that is being written, other answers, candidates of a gap, labels.

import { html, exact, percent } from "./look-dom.js";
import { figure } from "./look-figure.js";
import { bars } from "./look-bars.js";
import { readable } from "./look-data.js";

const MOST_BARS = 10;

// the tokens of an answer as spans, if they join to its text; a click on one calls choose(at)
function tokenParts(answer, choose) {
  const tokens = answer.tokens || [];
  const gap = ["", " "].find((between) => tokens.join(between).trim() === answer.text);
  if (!tokens.length || gap === undefined || !choose) return answer.text;
  return tokens.map((token, at) => {
    const [, before, shown, after] = /^(\s*)(.*?)(\s*)$/s.exec(token);
    return [at ? gap : "", at ? before : "", html("span", { class: "tok", title: "look inside at this token", onclick: () => choose(at) }, shown), after];
  });
}

// a text whose gaps were filled: what fills them stands out
function filledParts(line, mask, text) {
  const around = line.split(mask).map((part) => `(\\s*${part.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}\\s*)`);
  const found = around.length > 1 && new RegExp(`^${around.join("(.*?)")}$`, "s").exec(text);
  return found ? found.slice(1).map((part, i) => (i % 2 ? part : html("span", { class: "given" }, part))) : text;
}

// what an answer looks like when it is whole; a click on a token calls choose(at)
export function whole(facts, line, best, choose) {
  if (!best.text) return html("i", { class: "soft" }, "an empty answer");
  if (facts.family === "encoder") return filledParts(line, facts.mask, best.text);
  return facts.family === "classifier" ? best.text : tokenParts(best, choose);
}

// the text so far; before it, for language models, what was given
export function written(facts, line, content, { writing = false } = {}) {
  return html("p", { class: `answer-text ${facts.family}${writing ? " writing" : ""}` }, facts.family === "lm" ? html("span", { class: "given" }, line) : null,
    content, writing ? html("span", { class: "caret", "aria-hidden": "true" }) : null);
}

function likely(table, title, name, mark) {
  const rows = Object.entries(table).map(([label, value]) => ({ label: readable([label])[0], value, mark: label === mark })).sort((a, b) => b.value - a.value);
  return figure({
    title, name, level: "h2",
    draw: (width) => bars({ rows: rows.slice(0, MOST_BARS), width: Math.min(width, 620), label: title, form: percent, most: 1 }),
    table: () => ({ head: ["token", "probability"], rows: rows.map((row) => [row.label, exact(row.value)]) }),
  }).element;
}

// below the answer: probabilities of labels or of what fills the gaps
export function candidates(facts, answer) {
  if (facts.family === "classifier") return answer.probabilities ? [likely(answer.probabilities, "Labels", "labels", answer.text)] : [];
  const gaps = answer.masks || (answer.probabilities ? [answer.probabilities] : []);
  return gaps.map((gap, i) => likely(gap, gaps.length > 1 ? `Gap ${i + 1}` : "What fits the gap", `gap-${i + 1}`, Object.keys(gap)[0]));
}

// a probability that may be small: two digits
function chance(p) { return p >= 0.1 ? percent(p) : p >= 1e-5 ? `${Number((100 * p).toPrecision(2))} %` : p > 0 ? "<0.001 %" : "0 %"; }

// other answers, the best first: text, probability and log p
export function alternatives(answers, text, title) {
  if (answers.length < 2) return null;
  const most = Math.max(...answers.map((one) => Math.exp(one.log_probability ?? -Infinity)), 1e-300);
  return html(
    "section", { class: "others" }, html("h2", {}, title),
    html("ol", {}, answers.map((one) => {
      const p = Math.exp(one.log_probability ?? -Infinity);
      return html("li", { class: one.text === text ? "same" : null },
        html("span", { class: "what" }, one.text || html("i", {}, "empty")),
        html("meter", { min: 0, max: 1, value: p / most, "aria-hidden": "true" }),
        html("span", { class: "number", "data-p": p }, chance(p)),
        html("span", { class: "number soft" }, `log p ${exact(one.log_probability ?? -Infinity)}`));
    })),
  );
}
