// What is known of a model: facts, cost, recipe, and the run that it comes from.

import { html, svg, words, short } from "./look-dom.js";
import { figure, tableOf } from "./look-figure.js";

const grouped = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : short(value));

function rounded(value, unit = "") {
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [size, letter] = steps.find(([least]) => value >= least) || [1, ""];
  return `${(value / size).toFixed(size > 1 ? 1 : 0)} ${letter}${unit}`.trim();
}

function factList(rows) {
  return html("dl", { class: "facts" }, rows.filter(([, value]) => value).map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value))));
}

function costPart(cost) {
  const at = Object.entries(cost.at || {}).map(([letter, size]) => `${letter} = ${size}`).join(", ");
  return html("section", {}, html("h2", {}, "Cost"), factList([
    ["parameters", grouped(cost.parameters)], ["weights", rounded(cost.weight_bytes, "B")],
    ["a forward pass", `${rounded(cost.macs)} multiply-adds`], ["an answer", cost.decode_macs && `${rounded(cost.decode_macs)} multiply-adds`],
    ["cache", cost.cache_bytes && rounded(cost.cache_bytes, "B")],
  ]), html("p", { class: "note" }, `At ${at}; parameters = ${cost.formulas?.parameters || ""}`));
}

function recipePart(text, say) {
  const copied = (button) => { button.textContent = "copied"; say("The recipe is copied"); setTimeout(() => { button.textContent = "copy"; }, 1500); };
  const code = html("pre", { tabindex: "0", role: "region", "aria-label": "Recipe" }, text);
  return html("section", { class: "whole" }, html("div", { class: "titled" }, html("h2", {}, "Recipe"),
    html("button", {
      type: "button", class: "quiet",
      onclick: (event) => {
        const { target } = event;
        const select = () => { getSelection().selectAllChildren(code); say("The recipe is selected"); };
        if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => copied(target), select);
        else select(); // browsers lend the clipboard to secure addresses only
      },
    }, "copy")), code);
}

// lines over steps; each has its own scale, whose ends are written beside it
function curves(series, width) {
  const [left, right, tall] = [8, 64, 120];
  const last = Math.max(...series.flatMap((one) => one.points.map(([step]) => step)), 1);
  const x = (step) => left + (step / last) * (width - left - right);
  const height = series.length * (tall + 34) + 16;
  return svg("svg", { class: "fig curves", role: "img", "aria-label": `Curves of ${series.map((one) => one.name).join(" and ")}`, width, height, viewBox: `0 0 ${width} ${height}` },
    series.map(({ name, points }, i) => {
      const top = i * (tall + 34) + 20;
      const values = points.map(([, value]) => value);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const y = (value) => top + tall - ((value - low) / (high - low || 1)) * tall;
      const end = points.at(-1);
      return [
        words("tiny soft", left, top - 7, name),
        svg("line", { class: "hair", x1: left, x2: width - right, y1: top + tall, y2: top + tall }),
        svg("polyline", { class: "curve", points: points.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }),
        svg("circle", { class: "plus", cx: x(end[0]), cy: y(end[1]), r: 3.5 }),
        words("strong", x(end[0]) + 9, y(end[1]) + 4, short(end[1])),
      ];
    }),
    words("tiny soft", left, height - 4, "step 0"), words("tiny soft end", width - right, height - 4, grouped(last)));
}

const spaced = (name) => String(name ?? "").replaceAll("_", " ");

function curvePart(run) {
  const rows = run.history || [];
  const line = (key, name) => ({ name, points: rows.filter((row) => Number.isFinite(row[key])).map((row) => [row.step, row[key]]) });
  const series = [line("loss", "training loss"), line("dev_loss", "dev loss"), ...(run.metric === "loss" ? [] : [line(`dev_${run.metric}`, `dev ${spaced(run.metric)}`)])].filter((one) => one.points.length > 1);
  const steps = [...new Set(series.flatMap((one) => one.points.map(([step]) => step)))].sort((a, b) => a - b);
  const best = run.best?.step ? `, the best at ${grouped(run.best.step)}` : "";
  return html("section", {}, series.length ? figure({
    title: "How it learnt", name: "curve", level: "h2", draw: (width) => curves(series, width),
    table: () => ({ head: ["step", ...series.map((one) => one.name)], rows: steps.map((step) => [String(step), ...series.map((one) => { const found = one.points.find(([own]) => own === step); return found ? short(found[1]) : ""; })]) }),
  }).element : html("h2", {}, "How it learnt"), html("p", { class: "note" }, `${grouped(run.steps || 0)} steps${best}`));
}

function scorePart(run) {
  const parts = Object.entries(run.scores || {}).filter(([, one]) => Object.keys(one.metrics || {}).length);
  if (!parts.length) return null;
  const names = [...new Set(parts.flatMap(([, one]) => Object.keys(one.metrics)))];
  const cell = (one) => (one ? [html("b", {}, short(one.value)), one.low === null || one.low === undefined ? "" : ` ${short(one.low)} – ${short(one.high)}`] : "");
  return html("section", {}, html("h2", {}, "Scores, with 95 % intervals"),
    tableOf({ head: ["metric", ...parts.map(([name]) => name)], rows: names.map((name) => [spaced(name), ...parts.map(([, one]) => html("span", {}, cell(one.metrics[name])))]) }, "Scores"));
}

function worstPart(run) {
  if (!run.worst?.length) return null;
  return html("section", { class: "whole worst" }, html("h2", {}, run.judged ? `Where it is most wrong, of ${grouped(run.judged)} lines` : "Where it is most wrong"),
    tableOf({ head: ["text", "its answer", "right"], rows: run.worst.map((one) => [one.source, one.answer ?? "", one.references.join(" / ")]) }, "Worst lines"));
}

export function aboutModel(told, say) {
  const { facts: known, recipe, cost, run } = told;
  const sides = Object.entries(known.sides || {}).map(([side, kind]) => `${side}: ${kind}`).join(", ");
  return html("div", { class: "about" },
    html("section", {}, html("h2", {}, "Model"), factList([
      ["name", known.name], ["family", known.family], ["parameters", grouped(known.parameters)], ["tokens", sides],
      ["labels", (known.labels || []).slice(0, 12).join(", ")], ["fingerprint", known.fingerprint && html("code", { title: known.fingerprint }, known.fingerprint.slice(0, 12))],
    ]), known.trouble ? html("p", { class: "trouble" }, `A newer version was not taken: ${known.trouble}`) : null),
    cost?.parameters ? costPart(cost) : null, run ? [curvePart(run), scorePart(run), worstPart(run)] : null, recipe ? recipePart(recipe, say) : null);
}
