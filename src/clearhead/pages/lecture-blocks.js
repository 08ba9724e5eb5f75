// Living figures of what stands around attention: layer norm, the residual, sinusoidal positions.
import { dotProduct, flipped, matrixProduct, meanOf, normalRows, numberText, varianceOf } from "./lecture-numbers.js";
import { heatPlot, linesPlot } from "./lecture-plot.js";

const deviationOf = (variance, eps, place) => (place === "inside" ? Math.sqrt(variance + eps) : Math.sqrt(variance) + eps);
const normalised = (values, eps, place) => {
  const [mean, deviation] = [meanOf(values), deviationOf(varianceOf(values), eps, place)];
  return values.map((value) => (value - mean) / deviation);
};

// L0.10, L2.8: over which numbers μ and σ are taken, and where ε stands
export function normFigure({ axis, place, size, shift, eps }) {
  const tokens = normalRows(41, 4, 6).map((row) => row.map((value) => value * size + shift));
  const along = {
    token: () => tokens.map((row) => normalised(row, eps, place)),
    sequence: () => flipped(flipped(tokens).map((column) => normalised(column, eps, place))),
    all: () => {
      const flat = normalised(tokens.flat(), eps, place);
      return tokens.map((row, index) => flat.slice(index * row.length, (index + 1) * row.length));
    },
  };
  const result = along[axis]();
  const [mean, deviation] = [meanOf(result[0]), Math.sqrt(varianceOf(result[0]))];
  const labels = { rows: ["token 1", "token 2", "token 3", "token 4"], xLabel: "feature", signed: true };
  const over = { token: "the features of each token", sequence: "the tokens, for each feature", all: "all numbers at once" }[axis];
  return {
    said: `μ and σ over ${over}: token 1 has mean ${numberText(mean)} and deviation ${numberText(deviation)} afterwards.`,
    facts: [["mean of token 1", mean], ["deviation of token 1", deviation], ["√ε", Math.sqrt(eps)]],
    pictures: [
      { title: "Before", drawn: heatPlot({ alt: "Features of four tokens before", values: tokens, ...labels }) },
      { title: "After", drawn: heatPlot({ alt: "Features of four tokens after", values: result, ...labels }) },
    ],
    numbers: { tokens, result, mean, deviation },
  };
}

// the derivative of (x − μ)/√(σ² + ε) in the direction v
function nudgedNorm(x, v, eps) {
  const [mean, nudge] = [meanOf(x), meanOf(v)];
  const root = Math.sqrt(varianceOf(x) + eps);
  const turn = meanOf(x.map((value, index) => (value - mean) * (v[index] - nudge)));
  return v.map((value, index) => (value - nudge) / root - ((x[index] - mean) * turn) / root ** 3);
}

// L0.11, L1.8: a token through many sublayers f(x) = tanh(xW)/2, and how much of a nudge at the input arrives
export function residualFigure({ depth, place, residual }) {
  const [width, eps] = [8, 1e-5];
  const matrices = Array.from({ length: 24 }, (_, layer) => normalRows(50 + layer, width, width).map((row) => row.map((value) => value / Math.sqrt(width))));
  let [[x], [v]] = [normalRows(48, 1, width), normalRows(49, 1, width)];
  const [input, nudge] = [x, v];
  const length = (values) => Math.sqrt(dotProduct(values, values));
  const [sizes, arrived] = [[length(x)], [1]];
  for (let layer = 0; layer < depth; layer += 1) {
    const [start, push] = place === "pre" ? [normalised(x, eps, "inside"), nudgedNorm(x, v, eps)] : [x, v];
    const bent = matrixProduct([start], matrices[layer])[0].map(Math.tanh);
    let y = bent.map((value) => value / 2);
    let w = matrixProduct([push], matrices[layer])[0].map((value, index) => ((1 - bent[index] ** 2) * value) / 2);
    if (residual) [y, w] = [y.map((value, index) => value + x[index]), w.map((value, index) => value + v[index])];
    [x, v] = place === "post" ? [normalised(y, eps, "inside"), nudgedNorm(y, w, eps)] : [y, w];
    sizes.push(length(x));
    arrived.push(length(v) / length(nudge));
  }
  const layers = sizes.map((_, index) => index);
  const share = arrived.at(-1);
  const form = residual ? { post: "LN(x + f(x))", pre: "x + f(LN(x))" }[place] : { post: "LN(f(x))", pre: "f(LN(x))" }[place];
  return {
    said: `${form}, ${depth} layers: a nudge at the input arrives ${numberText(share)} times as large.`,
    facts: [["nudge that arrives", share], ["length of the token at the end", sizes.at(-1)]],
    pictures: [{
      title: "Layer by layer",
      drawn: linesPlot({ alt: "Size of a nudge and of the token over the layers", xLabel: "layer", yLabel: "size (logarithm)", logY: true, series: [{ name: "nudge that arrives", x: layers, y: arrived }, { name: "length of the token", x: layers, y: sizes }] }),
    }],
    numbers: { input, nudge, matrices: matrices.slice(0, depth), sizes, arrived, output: x },
  };
}

export function sinusoidTable(length, width, layout) {
  const half = width / 2;
  const last = layout === "tensor2tensor" ? Math.max(half - 1, 1) : half;
  return Array.from({ length }, (_, position) => {
    const angles = Array.from({ length: half }, (_, index) => position * 10000 ** (-index / last));
    return layout === "interleaved"
      ? angles.flatMap((angle) => [Math.sin(angle), Math.cos(angle)])
      : [...angles.map(Math.sin), ...angles.map(Math.cos)];
  });
}

// L2.10: the table, and how alike two positions are
export function sinusoidsFigure({ length, width, layout, position }) {
  const table = sinusoidTable(length, width, layout);
  const at = Math.min(position, length - 1);
  const alike = table.map((row) => dotProduct(row, table[at]));
  const positions = table.map((_, index) => index);
  return {
    said: `Position ${at} is closest to itself, ${numberText(alike[at])} = d/2; position ${Math.min(at + 1, length - 1)} reaches ${numberText(alike[Math.min(at + 1, length - 1)])}.`,
    facts: [["PE(p)·PE(p)", alike[at]], ["longest wavelength in positions", 2 * Math.PI * 10000 ** ((width / 2 - 1) / (layout === "tensor2tensor" ? Math.max(width / 2 - 1, 1) : width / 2))]],
    pictures: [
      { title: "The table", drawn: heatPlot({ alt: "Sines and cosines of each position", values: table, xLabel: "feature", yLabel: "position", signed: true, full: 1 }) },
      { title: `PE(${at})·PE(p)`, drawn: linesPlot({ alt: "Dot product with every position", xLabel: "position p", yLabel: "dot product", series: [{ name: "how alike", x: positions, y: alike }], marks: [[at, alike[at], `p = ${at}`]] }) },
    ],
    numbers: { table, alike },
  };
}
