// A picture and its patches, shaded by what each of them weighs.

import { html, svg, exact } from "./look-dom.js";
import { withCursor } from "./look-cursor.js";

// the colour of every pixel; grey unless there are three channels
function colours({ pixels }) {
  const all = pixels.flat(2);
  const low = all.reduce((a, b) => Math.min(a, b));
  const wide = all.reduce((a, b) => Math.max(a, b)) - low || 1;
  return pixels.map((row) => row.map((pixel) => {
    const levels = [pixel].flat().map((value) => 255 * (value - low) / wide);
    const grey = levels.reduce((a, b) => a + b) / levels.length;
    return `rgb(${(levels.length === 3 ? levels : [grey, grey, grey]).map(Math.round).join()})`;
  }));
}

// the picture as SVG: its pixels, and over every patch the weight
export function patchPicture(image, weights, side) {
  const pixels = colours(image);
  const [tall, wide] = [pixels.length, pixels[0].length];
  const dot = side / Math.max(tall, wide);
  const size = dot * image.patch;
  const sizes = weights.map(Math.abs);
  const least = weights.some((weight) => weight < 0) ? 0 : Math.min(...sizes); // shares all lie far from 0: their differences count
  const most = Math.max(1e-12, ...sizes) - least || 1;
  return svg(
    "svg", { class: "fig", width: dot * wide, height: dot * tall, viewBox: `0 0 ${dot * wide} ${dot * tall}`, "aria-hidden": "true" },
    svg("g", { class: weights.length ? "faint" : null }, pixels.flatMap((row, y) => row.map((pixel, x) => svg("rect", {
      x: x * dot, y: y * dot, width: dot + 0.3, height: dot + 0.3, fill: pixel,
    })))),
    weights.map((weight, i) => svg("rect", {
      class: weight < 0 ? "over minus" : "over plus", x: (i % image.columns) * size, y: Math.floor(i / image.columns) * size,
      width: size, height: size, "fill-opacity": (0.75 * (Math.abs(weight) - least) / most).toFixed(3),
    }, svg("title", {}, exact(weight)))),
  );
}

export function patches({ image, weights, labels, side, label }) {
  const size = side / Math.max(image.rows, image.columns);
  const most = weights.reduce((best, weight, i) => (Math.abs(weight) > Math.abs(weights[best]) ? i : best), 0);
  const { whole, readout } = withCursor({
    drawing: patchPicture(image, weights, side), rows: image.rows, columns: image.columns, label, at: [Math.floor(most / image.columns), most % image.columns],
    box: (i, j) => ({ left: j * size, top: i * size, width: size, height: size }),
    words: (i, j) => `patch ${labels[i * image.columns + j]}: ${exact(weights[i * image.columns + j])}`,
    find: (x, y) => [y / size, x / size],
  });
  return html("div", {}, html("div", { class: "pictures" }, patchPicture(image, [], Math.min(side, 180)), whole), readout);
}
