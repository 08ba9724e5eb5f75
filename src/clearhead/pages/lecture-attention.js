// Living figures of attention itself: the choice, the mask, the scale, and what the order of the tokens does.
import { divisorOf, dotProduct, flipped, matrixProduct, meanOf, normalRows, numberText, softmaxOf, varianceOf } from "./lecture-numbers.js";
import { barsPlot, heatPlot } from "./lecture-plot.js";
import { sinusoidTable } from "./lecture-blocks.js";

const positionNames = (count) => Array.from({ length: count }, (_, index) => `${index + 1}`);
const entropyOf = (weights) => -weights.reduce((sum, weight) => sum + (weight > 0 ? weight * Math.log(weight) : 0), 0);

// L0.3: soft weights, or the one-hot row of the best key; the slope of both is the softmax's
export function choiceFigure({ choice, one, two, three, four }) {
  const scores = [one, two, three, four];
  const values = [0, 10, 20, 30];
  const soft = softmaxOf(scores);
  const best = scores.indexOf(Math.max(...scores));
  const weights = choice === "soft" ? soft : scores.map((_, index) => (index === best ? 1 : 0));
  const result = dotProduct(weights, values);
  const slopes = soft.map((weight, index) => weight * (values[index] - dotProduct(soft, values)));
  return {
    said: `${choice === "soft" ? "Soft" : "Hard"} attention takes ${numberText(result)} from the values 0, 10, 20, 30.`,
    facts: [["result Σ αᵢ vᵢ", result], ["Σ αᵢ", weights.reduce((a, b) => a + b, 0)], ["∂ result / ∂ score 1", slopes[0]]],
    pictures: [{ title: "Weights", drawn: barsPlot({ alt: `Weights: ${weights.map(numberText).join(", ")}`, bars: weights.map((weight, index) => [`key ${index + 1}`, weight]) }) }],
    numbers: { scores, values, weights, result, slopes },
  };
}

// L1.9: scores, scores with the mask, weights; with a cache the queries are the last of the tokens
export function maskFigure({ mask, scale, cached, align }) {
  const [n, size] = [5, 3];
  const tokens = positionNames(n);
  const [allQueries, keys] = [normalRows(11, n, size), normalRows(12, n, size)];
  const queries = allQueries.slice(cached);
  const scores = matrixProduct(queries, flipped(keys)).map((row) => row.map((score) => score / divisorOf(scale, size)));
  const offset = align === "right" ? cached : 0;
  const masked = scores.map((row, i) => row.map((score, j) => (mask && j > i + offset ? -Infinity : score)));
  const weights = masked.map(softmaxOf);
  const future = weights.reduce((sum, row, i) => sum + row.reduce((a, weight, j) => a + (j > i + cached ? weight : 0), 0), 0);
  const hidden = masked.flatMap((row, i) => row.filter((score, j) => score === -Infinity && j <= i + cached)).length;
  const labels = { rows: tokens.slice(cached).map((token) => `query ${token}`), columns: tokens, xLabel: "key", written: true };
  const left = future > 0 ? `${numberText(future)} of the weight lies on later tokens` : "no weight lies on a later token";
  return {
    said: `${n - cached} queries over ${n} keys: ${left}${hidden ? `, and ${hidden} earlier keys are hidden by mistake` : ""}.`,
    facts: [["weight on later tokens", future], ["earlier keys hidden by mistake", hidden]],
    pictures: [
      { title: "Scores QKᵀ", drawn: heatPlot({ alt: "Scores of each query and key", values: scores, signed: true, ...labels }) },
      { title: "Masked: crossed out is −∞", drawn: heatPlot({ alt: "The same with later keys masked", values: masked, signed: true, ...labels }) },
      { title: "Weights: softmax of each row", drawn: heatPlot({ alt: "Weights of each query", values: weights, full: 1, ...labels }) },
    ],
    numbers: { queries, keys, scores, weights, future },
  };
}

// L4.8, L2.9: the variance of q·k grows with d_k; what that does to the softmax
export function scaleFigure({ size, scale }) {
  const [rows, m] = [64, 16];
  const [queries, keys] = [normalRows(21, rows, size), normalRows(22, m, size)];
  const by = divisorOf(scale, size);
  const scores = queries.map((query) => keys.map((key) => dotProduct(query, key) / by));
  const weights = scores.map(softmaxOf);
  const variance = varianceOf(scores.flat());
  const looked = meanOf(weights.map((row) => Math.exp(entropyOf(row))));
  const slope = meanOf(weights.flat().map((weight) => weight * (1 - weight)));
  const name = { sqrt: "q·k/√d_k", dim: "q·k/d_k", none: "q·k" }[scale];
  return {
    said: `With d_k = ${size} the variance of ${name} is ${numberText(variance)}, and a query looks at ${numberText(looked)} of ${m} keys.`,
    facts: [["variance of the scores", variance], ["keys looked at, exp(entropy)", looked], ["mean slope α(1 − α)", slope]],
    pictures: [{ title: "Weights of the first query", drawn: barsPlot({ alt: "Weights of 16 keys", bars: weights[0].map((weight, index) => [`key ${index + 1}`, weight]) }) }],
    numbers: { queries, keys, variance, looked, slope, weights: weights[0] },
  };
}

// L1.10: the tokens in another order; without positions only the rows of the result change places
export function orderFigure({ shift, positions }) {
  const [n, width] = [5, 4];
  const tokens = normalRows(31, n, width);
  const order = positionNames(n).map((_, index) => (index + shift) % n);
  const table = sinusoidTable(n, width, "interleaved");
  const attended = (rows) => {
    const x = positions ? rows.map((row, i) => row.map((value, j) => value + table[i][j])) : rows;
    const weights = x.map((query) => softmaxOf(x.map((key) => dotProduct(query, key) / Math.sqrt(width))));
    return matrixProduct(weights, x);
  };
  const before = attended(tokens);
  const after = attended(order.map((index) => tokens[index]));
  const moved = Math.max(...after.flatMap((row, i) => row.map((value, j) => Math.abs(value - before[order[i]][j]))));
  const same = moved < 1e-9;
  const rowsOf = (indices) => indices.map((index) => `token ${index + 1}`);
  return {
    said: same
      ? "The results are the same, in the new order: attention alone sees a set."
      : `The results differ by up to ${numberText(moved)}: with positions, order means something.`,
    facts: [["max|f(PX) − P f(X)|", same ? 0 : moved]],
    pictures: [
      { title: "Result f(X)", drawn: heatPlot({ alt: "Result in the first order", values: before, rows: rowsOf(order.map((_, index) => index)), xLabel: "feature", signed: true }) },
      { title: "Result f(PX)", drawn: heatPlot({ alt: "Result in the new order", values: after, rows: rowsOf(order), xLabel: "feature", signed: true }) },
    ],
    numbers: { tokens, order, before, after, moved },
  };
}
