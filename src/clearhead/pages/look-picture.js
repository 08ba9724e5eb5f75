// A picture and its patches, shaded by what each of them weighs.

import { html, svg, exact, movement, place } from "./look-dom.js";

function grey(image) {
  const rows = image.pixels.map((row) => row.map((pixel) => (Array.isArray(pixel) ? pixel.reduce((a, b) => a + b, 0) / pixel.length : pixel)));
  const all = rows.flat();
  const [low, high] = [Math.min(...all), Math.max(...all)];
  return rows.map((row) => row.map((pixel) => (pixel - low) / (high - low || 1)));
}

// the picture as SVG: its pixels, and over every patch the weight
export function patchPicture(image, weights, side, at = null) {
  const pixels = grey(image);
  const [tall, wide] = [pixels.length, pixels[0].length];
  const dot = side / Math.max(tall, wide);
  const size = dot * image.patch;
  const most = Math.max(1e-12, ...weights.map(Math.abs));
  return svg(
    "svg", { class: "fig", width: dot * wide, height: dot * tall, viewBox: `0 0 ${dot * wide} ${dot * tall}`, "aria-hidden": "true" },
    pixels.flatMap((row, y) => row.map((value, x) => {
      const level = Math.round(255 * value);
      return svg("rect", { x: x * dot, y: y * dot, width: dot + 0.3, height: dot + 0.3, fill: `rgb(${level},${level},${level})` });
    })),
    weights.map((weight, i) => svg("rect", {
      class: weight < 0 ? "over minus" : "over plus", x: (i % image.columns) * size, y: Math.floor(i / image.columns) * size,
      width: size, height: size, "fill-opacity": (0.8 * Math.abs(weight) / most).toFixed(3),
    }, svg("title", {}, exact(weight)))),
    at === null ? null : svg("rect", { class: "ring", x: (at % image.columns) * size, y: Math.floor(at / image.columns) * size, width: size, height: size }),
  );
}

export function patches({ image, weights, labels, side, label }) {
  const size = side / Math.max(image.rows, image.columns);
  const cell = html("div", { role: "gridcell", tabindex: "0", class: "cursor" });
  const row = html("div", { role: "row" }, cell);
  const grid = html("div", { role: "grid", "aria-label": label, "aria-rowcount": image.rows, "aria-colcount": image.columns }, row);
  const readout = html("p", { class: "readout" });
  let at = weights.reduce((best, weight, i) => (Math.abs(weight) > Math.abs(weights[best]) ? i : best), 0);
  const show = () => {
    const [r, c] = [Math.floor(at / image.columns), at % image.columns];
    const words = `patch ${labels[at]}: ${exact(weights[at])}`;
    row.setAttribute("aria-rowindex", r + 1);
    cell.setAttribute("aria-colindex", c + 1);
    cell.setAttribute("aria-label", words);
    readout.textContent = words;
    place(cell, { left: `${c * size}px`, top: `${r * size}px`, width: `${size}px`, height: `${size}px` });
  };
  const move = (r, c) => {
    at = Math.max(0, Math.min(image.rows - 1, r)) * image.columns + Math.max(0, Math.min(image.columns - 1, c));
    show();
  };
  grid.addEventListener("keydown", (event) => {
    const step = movement(event);
    if (!step || step.to) return;
    event.preventDefault();
    move(Math.floor(at / image.columns) + step.down, (at % image.columns) + step.across);
  });
  const whole = html("div", { class: "matrix" }, patchPicture(image, weights, side), grid);
  const pointed = (event) => {
    const box = whole.getBoundingClientRect();
    move(Math.floor((event.clientY - box.top) / size), Math.floor((event.clientX - box.left) / size));
  };
  whole.addEventListener("click", pointed);
  place(whole, { width: `${size * image.columns}px` });
  show();
  return html("div", {}, whole, readout);
}
