// Living figures of cost: heads of free sizes, sizes of a layer, Linformer, Table 1, parallel time.
import { numberText, treeDepth } from "./lecture-numbers.js";
import { barsPlot, linesPlot } from "./lecture-plot.js";

// L0.7, L0.8, L0.9: multi-head attention term by term
export function headsFigure({ N, M, h, dq, dv, headq, headv, dout }) {
  const time = [h * (dq * headq * (M + N) + dv * headv * M), h * N * M * (headq + headv), N * h * headv * dout];
  const space = [h * (headq * (M + N) + headv * M), h * (M * N + N * headv), N * dout];
  const [work, room] = [time, space].map((terms) => terms.reduce((a, b) => a + b, 0));
  const names = ["projections", "attention", "output"];
  const barred = (terms) => barsPlot({ alt: terms.map((term, index) => `${names[index]}: ${numberText(term)}`).join(", "), bars: terms.map((term, index) => [names[index], term, index]) });
  const largest = names[time.indexOf(Math.max(...time))];
  return {
    said: `${numberText(work)} multiplications and ${numberText(room)} numbers; the largest term is ${largest}.`,
    facts: [["multiplications", work], ["numbers computed", room], ["scores divided by √d̃_q", Math.sqrt(headq)]],
    pictures: [{ title: "Time: multiplications", drawn: barred(time) }, { title: "Space: numbers computed", drawn: barred(space) }],
    numbers: { time, space },
  };
}

// L4.3, L4.4, L2.13, L1.11: one layer of width d with h heads of size d/h
export function sizesFigure({ n, d, h }) {
  const parts = { projections: 4 * n * d * d, mixing: 2 * n * n * d, feedforward: 8 * n * d * d };
  const parameters = { attention: 4 * d * d, feedforward: 8 * d * d };
  const weights = h * n * n;
  const more = parts.mixing > parts.projections ? "more" : parts.mixing < parts.projections ? "less" : "exactly as much";
  return {
    said: `Scores and values cost ${more}${more === "exactly as much" ? " as" : " than"} the projections; ${h} heads store ${numberText(weights)} weights, ${numberText(4 * weights)} bytes.`,
    facts: [["attention, 4nd² + 2n²d", parts.projections + parts.mixing], ["feed-forward, 8nd²", parts.feedforward], ["parameters", parameters.attention + parameters.feedforward], ["bytes of weights, 4hn²", 4 * weights]],
    pictures: [{
      title: "Multiplications of one layer",
      drawn: barsPlot({ alt: "Multiplications of projections, scores and values, and feed-forward net", bars: [["projections 4nd²", parts.projections, 0], ["scores, values 2n²d", parts.mixing, 1], ["feed-forward 8nd²", parts.feedforward, 2]] }),
    }],
    numbers: { attention: parts.projections + parts.mixing, feedforward: parts.feedforward, parameters: parameters.attention + parameters.feedforward, weights },
  };
}

// L2.14: full attention against k slots; they cost the same at n = 2k
export function linformerFigure({ n, k, d }) {
  const full = (length) => 4 * length * d * d + 2 * length * length * d;
  const slots = (length) => 4 * length * d * d + 4 * length * k * d;
  const lengths = Array.from({ length: 64 }, (_, index) => 8 * (index + 1));
  const [here, there] = [full(n), slots(n)];
  const verdict = there < here ? "is cheaper than full attention" : there > here ? "costs more than full attention" : "costs as much as full attention";
  const crossing = Math.min(2 * k, 512);
  return {
    said: `At n = ${n} Linformer with k = ${k} ${verdict}; the lines cross at n = 2k = ${2 * k}.`,
    facts: [["full attention", here], ["Linformer", there], ["cheaper from n =", 2 * k + 1]],
    pictures: [{
      title: "Multiplications over the length",
      drawn: linesPlot({ alt: `Full attention bends upwards and crosses Linformer's straight line at n = ${2 * k}`, xLabel: "tokens n", yLabel: "multiplications", series: [{ name: "full: 4nd² + 2n²d", x: lengths, y: lengths.map(full) }, { name: "Linformer: 4nd² + 4nkd", x: lengths, y: lengths.map(slots) }], marks: [[crossing, full(crossing), `n = ${crossing}`]] }),
    }],
    numbers: { full: here, linformer: there, crossing: 2 * k },
  };
}

// L4.6, L2.1: the four layers of Table 1, without the projections of attention, as the table prints them
export function tableOneFigure({ n, d, k, r }) {
  const layers = [
    { name: "self-attention", work: 2 * n * n * d, sequential: 1, path: 1 },
    { name: "recurrent", work: 2 * n * d * d, sequential: n, path: n },
    { name: "convolution", work: k * n * d * d, sequential: 1, path: Math.ceil(Math.log(n) / Math.log(k) - 1e-9) },
    { name: "restricted", work: 2 * n * r * d, sequential: 1, path: Math.ceil((2 * (n - 1)) / (r - 1)) },
  ];
  const barred = (what) => barsPlot({ alt: layers.map((layer) => `${layer.name}: ${numberText(layer[what])}`).join(", "), bars: layers.map((layer, index) => [layer.name, layer[what], index]), log: true });
  return {
    said: `The ends of ${n} tokens are ${numberText(layers[1].path)} steps apart in a recurrent net, ${numberText(layers[2].path)} in convolutions, ${numberText(layers[3].path)} in restricted attention, 1 in attention.`,
    facts: layers.map((layer) => [`${layer.name}, sequential steps`, layer.sequential]),
    pictures: [{ title: "Longest path (bars: logarithm)", drawn: barred("path") }, { title: "Multiplications without projections (bars: logarithm)", drawn: barred("work") }],
    numbers: { work: layers.map((layer) => layer.work), sequential: layers.map((layer) => layer.sequential), path: layers.map((layer) => layer.path) },
  };
}

// L3.3, L3.4, L3.6: the longest chain of operations, with sums as trees and with sums one term after the other
export function spanFigure({ T, J, K }) {
  const U = J / K;
  const tree = (terms) => 1 + treeDepth(terms);
  const softmax = 2 * treeDepth(T) + 3;
  const spans = {
    scores: tree(U) + softmax,
    scoresSerial: U + softmax,
    layer: tree(J) + tree(U) + softmax + tree(T),
    layerSerial: J + U + softmax + T,
  };
  const work = 3 * T * J * J + 2 * T * T * J;
  return {
    said: `With trees the layer takes ${spans.layer} steps for ${numberText(work)} multiplications; with serial sums ${numberText(spans.layerSerial)}, of which mixing the values takes T = ${T}.`,
    facts: [["U = J/K", U], ["multiplications", work], ["steps saved by trees", spans.layerSerial - spans.layer]],
    pictures: [{
      title: "Sequential operations",
      drawn: barsPlot({ alt: "Sequential operations of scores and of the layer", bars: [["1(a) trees", spans.scores, 0], ["1(a) serial sums", spans.scoresSerial, 1], ["1(b) trees", spans.layer, 0], ["1(b) serial sums", spans.layerSerial, 1]] }),
    }],
    numbers: { ...spans, work },
  };
}
