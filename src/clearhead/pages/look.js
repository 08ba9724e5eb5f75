// The page: what it shows first depends on the family; below it the chosen token, and every head.

import { announcer, html, exact, percent, radios, sumOf } from "./look-dom.js";
import { Look, shares } from "./look-data.js";
import { figure } from "./look-figure.js";
import { ribbons } from "./look-ribbons.js";
import { bars } from "./look-bars.js";
import { doubtItem, flow, flowPicture } from "./look-flow.js";
import { matrixPicture, matrixTable, matrixView } from "./look-matrix.js";
import { patchPicture, patches } from "./look-picture.js";
import { chosenPanel } from "./look-chosen.js";
import { headsPanel } from "./look-heads.js";
import { treeFigure } from "./look-tree.js";

export const FAMILY = { seq2seq: "sequence to sequence", recurrent: "recurrent", lm: "language model", encoder: "encoder", classifier: "classifier" };
const MOST_LINES = 8;

function topBar(look) {
  const { model, text, answer_text: answer, n_best: best = [], log_probabilities: logs = [] } = look.held;
  const title = look.held.image ? ["a picture", " → ", html("b", {}, answer)]
    : look.family === "lm" ? [html("span", {}, text)]
      : [html("span", {}, text), " → ", html("b", {}, answer)];
  return html(
    "header", { class: "top" },
    html("p", { class: "brand" }, html("b", {}, "clearhead"), " look", html("span", {}, [FAMILY[look.family], model?.name, model?.parameters && `${model.parameters.toLocaleString("en")} parameters`].filter(Boolean).join(" · "))),
    html("h1", { class: !look.held.image && String(text).length > 90 ? "long" : null }, title),
    look.family === "classifier" || look.family === "encoder" ? null : html("p", { class: "sum" }, "log p = ", html("b", { id: "logp" }, exact(sumOf(logs.slice(look.held.given || 0)))),
      best.length > 1 ? html("span", { class: "best" }, " · next best: ", best.slice(1, 4).map((one, i) => [i ? ", " : "", html("span", { class: "rival" }, one.text), ` ${exact(one.log_probability).slice(0, 6)}`])) : null),
  );
}

function tokenTable(look) {
  return { head: ["token", "probability", "alternatives"], rows: look.answer.map((token, i) => [
    token, look.probability(i) === null ? "given" : exact(look.probability(i)),
    (look.held.alternatives?.[i] || []).map((one) => `${look.token(one.token)} ${percent(one.probability)}`).join(", ")]) };
}

function firstPairs(look, state, act) {
  return figure({
    title: "What the answer is made of", name: "ribbons", level: "h2",
    draw: (width) => ribbons({
      source: look.source, answer: look.answer, joins: look.joined(state.measure, look.isOff(state.head) ? null : state.head), probability: (i) => look.probability(i),
      at: state.at, width, choose: act.choose, label: "The answer, token by token",
    }),
    table: () => tokenTable(look),
  });
}

function firstText(look, state, act) {
  const from = look.from(state.measure, state.at);
  // the first input is the start token, or the first token of the text
  const before = 1 - (state.at - (look.row(state.at) ?? state.at));
  const weights = shares((from.prefix || []).map(Math.abs));
  const lines = weights.map((share, i) => [i - before, share]).filter(([i]) => i >= 0).sort((a, b) => b[1] - a[1]).slice(0, MOST_LINES);
  const items = look.answer.map((token, i) => {
    const item = doubtItem(token, look.probability(i));
    return i < (look.held.given || 0) ? { ...item, kind: `${item.kind} given` } : item;
  });
  return figure({
    title: "Each token, the warmer the more surprising", name: "text", level: "h2",
    draw: () => flow({ items, at: state.at, label: "The text, token by token", choose: act.choose, lines }),
    picture: () => flowPicture(act.root.querySelector("[data-figure=text] .flow")), table: () => tokenTable(look),
  });
}

// tokens of the source by what they weigh for the answer
function weighed(look, state) {
  const from = look.from(state.measure, state.at);
  const values = from.source || look.source.map(() => 0);
  const most = Math.max(1e-12, ...values.map(Math.abs));
  return { values, items: look.source.map((token, i) => ({ text: token, tint: 0.85 * Math.abs(values[i]) / most, kind: values[i] < 0 ? "minus" : "plus", note: exact(values[i]) })) };
}

function weightTable(look, values, measure) {
  return { head: ["token", measure], rows: values.map((value, i) => [look.source[i], exact(value)]) };
}

function firstSource(look, state, act) {
  const { values, items } = weighed(look, state);
  const gaps = look.answer.map((_, at) => look.place(at));
  gaps.forEach((place, at) => { if (place !== null) items[place] = { ...items[place], text: look.answer.length > 1 ? `[${at + 1}]` : items[place].text, kind: "gap" }; });
  const here = look.place(state.at);
  const shown = look.held.image ? figure({
    title: "What each patch weighs", name: "patches", level: "h2",
    draw: (width) => patches({ image: look.held.image, weights: patchWeights(look, values), labels: look.source.slice(-values.length), side: Math.min(300, width), label: "Patches" }),
    picture: () => patchPicture(look.held.image, patchWeights(look, values), 320), table: () => weightTable(look, values, state.measure),
  }) : figure({
    title: here === null ? "What each token weighs" : "The gap, and what it reads", name: "text", level: "h2",
    draw: () => flow({ items, at: here ?? -1, label: "The text", choose: null }),
    picture: () => flowPicture(act.root.querySelector("[data-figure=text] .flow")), table: () => weightTable(look, values, state.measure),
  });
  const found = look.held.alternatives?.[state.at] || [];
  const rows = found.map((one) => ({ label: look.token(one.token), value: one.probability, mark: look.token(one.token) === look.answer[state.at] }));
  const labels = figure({
    title: here === null ? "Labels" : "Candidates", name: "candidates", level: "h2",
    draw: (width) => bars({ rows, width, label: "Probabilities", form: percent, most: 1 }),
    table: () => ({ head: ["token", "probability"], rows: rows.map((row) => [row.label, exact(row.value)]) }),
  });
  const several = look.answer.length > 1 ? radios("Gap", look.answer.map((token, i) => [String(i), `${i + 1}: ${token}`]), String(state.at), (i) => act.choose(Number(i))) : null;
  return { element: html("div", { class: "two" }, html("div", {}, several, labels.element), shown.element) };
}

// without what stands before the patches, such as a class token
function patchWeights(look, values) {
  const { rows, columns } = look.held.image;
  return values.slice(-rows * columns);
}

function firstMatrix(look, state, act) {
  const found = look.total(state.measure === "norms" ? "norms" : "attention", "cross");
  const { keys } = look.labels("cross");
  return figure({
    title: "Which source tokens each answer token reads", name: "alignment", level: "h2",
    draw: (width) => matrixView({ found, queries: look.answer, keys, width: Math.min(width, 760), most: 54, label: "Alignment: answer tokens read source tokens", at: [state.at, 0], picked: (i) => act.quietly(i) }),
    picture: () => matrixPicture(found, look.answer, keys), table: () => matrixTable(found, look.answer, keys),
  });
}

function firstScreen(look, state, act) {
  if (look.stacks().join() === "cross") return firstMatrix(look, state, act);
  if (look.oneSided) return firstSource(look, state, act);
  if (look.source.length) return firstPairs(look, state, act);
  return firstText(look, state, act);
}

function notes(look) {
  const told = ["lens", "parts", ...(look.source.length && !look.oneSided ? [] : ["alignment", "decoder_lens"])]; // elsewhere, or not expected
  const refused = Object.entries(look.held.refused || {}).filter(([name]) => !told.includes(name)).map(([, reason]) => reason);
  const off = look.held.without || [];
  const lines = [...(off.length ? [`heads off: ${off.join(", ")}`] : []), ...(look.held.left_out || []).map((line) => `left out: ${line}`), ...refused];
  return html("footer", {},
    html("p", {}, "Attention is not an explanation: a large weight on a token whose value is small moves nothing. Norms, ‖α v W‖, count what really arrives, and are shown first. Every number here is the one that Python gives, to 1e-5 of the largest in its row."),
    lines.length ? html("ul", {}, lines.map((line) => html("li", {}, line))) : null);
}

// the step to begin with: the one that was asked for, else the least certain
function firstChoice(look) {
  if (look.held.at !== undefined) return look.held.at;
  let best = Math.min(look.held.given || 0, look.answer.length - 1);
  for (let at = best; at < look.answer.length; at += 1) if ((look.probability(at) ?? 1) < (look.probability(best) ?? 1)) best = at;
  return best;
}

let redraw = () => {};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());

// show a document in an element: alone, or inside of another page, which says what stands above it; ask(request), where
// a server answers, gets another document, or null, and slow has what it computes only if asked to; kept is what was
// chosen in the one before
export function show(held, root, { ask = null, slow = null, inside = null, kept = {} } = {}) {
  const look = new Look(held);
  const measures = look.measures(slow?.measures);
  const { region, say } = announcer();
  const state = { at: firstChoice(look), against: null, measure: measures[0] || "attention", head: null, order: "importance", weights: look.stacks("norms").length ? "norms" : "attention" };
  if (kept.at < look.answer.length) state.at = kept.at;
  if (measures.includes(kept.measure)) state.measure = kept.measure;
  if (kept.head && look.named(kept.head, "attention")) state.head = kept.head;
  const first = html("section", { class: "first" });
  const chosen = html("section", { class: "chosen-panel", "aria-labelledby": "chosen" });
  const beam = html("div");
  const heads = html("section", { class: "heads-panel", "aria-labelledby": "heads" });
  const act = { root, say, slow, ask: ask && ((request) => ask(request).then((next) => next && show(next, root, { ask, slow, inside, kept: state }))) };
  const drawFirst = () => {
    const made = firstScreen(look, state, act);
    first.replaceChildren(
      measures.length > 1 ? radios("Weigh by", measures.map((name) => [name, name]), state.measure, (measure) => act.set({ measure })) : "",
      state.head?.startsWith("cross.") && !look.isOff(state.head) ? html("p", { class: "note only" }, `Ribbons of head ${state.head} `, html("button", { type: "button", class: "quiet", onclick: () => act.set({ head: null }) }, "all heads")) : "",
      made.element,
    );
  };
  const drawChosen = () => chosen.replaceChildren(...chosenPanel(look, state, act));
  const drawHeads = () => heads.replaceChildren(...headsPanel(look, state, act));
  const draw = () => { drawFirst(); drawChosen(); drawHeads(); };
  const keepFocus = (selector, redraw) => {
    redraw();
    requestAnimationFrame(() => requestAnimationFrame(() => root.querySelector(selector)?.focus({ preventScroll: true })));
  };
  Object.assign(act, {
    choose(at, focus = false) {
      if (at === state.at) return;
      Object.assign(state, { at, against: null });
      if (focus) keepFocus(".first [aria-selected=true]", drawFirst); else drawFirst();
      drawChosen();
      const p = look.probability(at);
      say(`${look.answer[at]}, token ${at + 1} of ${look.answer.length}${p === null ? "" : `, probability ${percent(p)}`}`);
    },
    quietly(at) { if (at !== state.at) { state.at = at; drawChosen(); } },
    against(against) { state.against = against; drawChosen(); },
    set(change) {
      const focused = document.activeElement?.closest?.("fieldset.choice") && document.activeElement.value;
      Object.assign(state, change);
      draw();
      if (focused) root.querySelector(`fieldset.choice input[value="${focused}"]`)?.focus();
    },
    head(name) {
      const before = document.activeElement?.dataset?.head;
      state.head = name;
      drawFirst();
      drawHeads();
      const about = look.about(name);
      say(`head ${name}${about?.role ? `, ${about.role}` : ""}, enlarged`);
      if (before) root.querySelector(`[data-head="${before}"]`)?.focus({ preventScroll: true });
    },
  });
  root.replaceChildren(inside ? inside(look, act) : topBar(look), html(inside ? "div" : "main", {}, first, chosen, beam, heads, region), notes(look));
  drawFirst();
  requestAnimationFrame(() => setTimeout(() => {
    performance.mark("first-picture");
    drawChosen();
    beam.append(treeFigure(look) || "");
    drawHeads();
  }));
  redraw = draw;
}
