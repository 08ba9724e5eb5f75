// A pad to draw on, for models that read pixels of one channel: by mouse, by finger, by keys, or from an image file.

import { html, short } from "./look-dom.js";
import { withCursor } from "./look-cursor.js";

const PAD_SIDE = 264; // pixels of the longer side
const BRUSH = 1.15; // cells from its middle to where it leaves nothing
const INK = 1; // the number that stands for full ink, as in the task digits

// drew(text) gets the picture as numbers after each stroke
export function drawingPad({ rows, columns, drew }) {
  const cell = PAD_SIDE / Math.max(rows, columns);
  const ink = new Float64Array(rows * columns);
  const canvas = html("canvas", { width: 2 * cell * columns, height: 2 * cell * rows, "aria-hidden": "true" });
  const full = html("input", { type: "number", min: 0.01, max: 255, step: "any", value: INK, onchange: () => tell() });
  let here = [0, 0];
  const paint = () => {
    const pen = canvas.getContext("2d");
    const colour = getComputedStyle(canvas);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.fillStyle = colour.color;
    ink.forEach((value, at) => {
      pen.globalAlpha = value;
      pen.fillRect(2 * cell * (at % columns), 2 * cell * Math.floor(at / columns), 2 * cell, 2 * cell);
    });
  };
  const tell = () => { if (ink.some((value) => value > 0)) drew(Array.from(ink, (value) => Number((value * (Number(full.value) || INK)).toFixed(2))).join(" ")); };
  const dab = (y, x) => {
    for (let i = 0; i < rows; i += 1) for (let j = 0; j < columns; j += 1) ink[i * columns + j] = Math.max(ink[i * columns + j], Math.min(1, 1.4 * (1 - Math.hypot(i + 0.5 - y, j + 0.5 - x) / BRUSH)));
  };
  const { whole, readout } = withCursor({
    drawing: canvas, rows, columns, label: "Draw here: arrows move, the space bar inks or clears a pixel", at: here, moved: (i, j) => { here = [i, j]; },
    box: (i, j) => ({ left: j * cell, top: i * cell, width: cell, height: cell }),
    words: (i, j) => `row ${i + 1}, column ${j + 1}: ${short(ink[i * columns + j])}`, find: (x, y) => [y / cell, x / cell],
  });
  let last = null; // where the brush was, while it is down
  const stroked = (event) => {
    if (!last) return;
    const home = canvas.getBoundingClientRect();
    const next = [(event.clientY - home.top) / cell, (event.clientX - home.left) / cell];
    const [from, steps] = [last.length ? last : next, Math.ceil(3 * Math.hypot(next[0] - last[0], next[1] - last[1])) || 1];
    for (let step = 1; step <= steps; step += 1) dab(...from.map((value, k) => value + (next[k] - value) * step / steps));
    paint();
    last = next;
  };
  const ended = () => { if (last) { last = null; tell(); } };
  whole.addEventListener("pointerdown", (event) => { last = []; whole.setPointerCapture(event.pointerId); stroked(event); });
  whole.addEventListener("pointermove", stroked);
  whole.addEventListener("pointerup", ended);
  whole.addEventListener("pointercancel", ended);
  whole.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    const at = here[0] * columns + here[1];
    ink[at] = ink[at] > 0 ? 0 : 1;
    paint();
    tell();
  });
  // an image file, as large as the pad; dark lines on white become ink
  const load = async (file) => {
    const small = html("canvas", { width: columns, height: rows });
    const pen = small.getContext("2d");
    pen.drawImage(await createImageBitmap(file), 0, 0, columns, rows);
    const { data } = pen.getImageData(0, 0, columns, rows);
    ink.forEach((_, at) => { ink[at] = (data[4 * at] + data[4 * at + 1] + data[4 * at + 2]) / 765; });
    if (ink.reduce((sum, value) => sum + value, 0) > ink.length / 2) ink.forEach((value, at) => { ink[at] = 1 - value; });
    paint();
    tell();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  const clear = html("button", { type: "button", class: "plain", onclick: () => { ink.fill(0); paint(); } }, "Clear");
  return {
    load,
    element: html("div", { class: "pad" }, whole, html("div", { class: "beside-pad" }, readout, html("p", { class: "note" }, "Draw with the mouse or a finger; or drop an image."),
      html("label", { class: "field" }, html("span", {}, "Full ink"), full), clear)),
  };
}
