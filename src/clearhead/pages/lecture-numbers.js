// Seeded random numbers, the linear algebra that small sizes need, and numbers as text. A matrix is an array of rows.

function* uniformNumbers(seed) {
  let state = seed >>> 0;
  while (true) {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    yield ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  }
}

// rows × columns numbers of mean 0 and variance 1; the same seed gives the same numbers (Box and Muller)
export function normalRows(seed, rows, columns) {
  const source = uniformNumbers(seed);
  const one = () => {
    const length = Math.sqrt(-2 * Math.log(1 - source.next().value));
    return length * Math.cos(2 * Math.PI * source.next().value);
  };
  return Array.from({ length: rows }, () => Array.from({ length: columns }, one));
}

export const dotProduct = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
export const flipped = (a) => a[0].map((_, column) => a.map((row) => row[column]));
export const matrixProduct = (a, b) => {
  const columns = flipped(b);
  return a.map((row) => columns.map((column) => dotProduct(row, column)));
};
export const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
export const varianceOf = (values) => {
  const mean = meanOf(values);
  return meanOf(values.map((value) => (value - mean) ** 2));
};

// weights of one query; a masked score is −Infinity, and a query without any key gets 0
export function softmaxOf(scores) {
  const highest = Math.max(...scores);
  if (highest === -Infinity) return scores.map(() => 0);
  const raised = scores.map((score) => Math.exp(score - highest));
  const sum = raised.reduce((a, b) => a + b, 0);
  return raised.map((value) => value / sum);
}

export const divisorOf = (scale, size) => ({ sqrt: Math.sqrt(size), dim: size, none: 1 })[scale];
export const treeDepth = (terms) => Math.ceil(Math.log2(terms) - 1e-9);

// whole numbers with separators, others to four digits
export function numberText(value) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value)) return value.toLocaleString("en-US").replace("-", "−");
  const size = Math.abs(value);
  if (size < 1e-12) return "0";
  const text = size < 1e-3 ? Number(value.toPrecision(3)).toExponential() : size < 1e4 ? `${Number(value.toPrecision(4))}` : Math.round(value).toLocaleString("en-US");
  return text.replaceAll("-", "−");
}
