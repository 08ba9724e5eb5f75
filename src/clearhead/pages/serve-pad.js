// A pad to draw on, for models that read pixels of one channel or of red, green and blue: by mouse, by finger, by keys, or
// from an image file.

import { html, short } from "./look-dom.js";
import { withCursor } from "./look-cursor.js";

const PAD_SIDE = 264; // pixels of the longer side
const BRUSH = 1.15; // cells from its middle to where it leaves nothing
const FULL = 1; // the number that stands for full ink, as in the task digits

// ink: one number a pixel, the darker the more; dark lines on white become ink
const INK = {
  channels: 1, full: "Full ink",
  brush: () => [1],
  laid: (before, share) => [Math.max(before[0], share)],
  style: ([value], ink) => [ink, value],
  fromImage(levels) {
    const ink = levels.map((level) => [level.reduce((sum, value) => sum + value) / 3]);
    const pale = ink.reduce((sum, [value]) => sum + value, 0) > ink.length / 2;
    return pale ? ink.map(([value]) => [1 - value]) : ink;
  },
};

// colours: red, green and blue of a pixel, side by side
const COLOUR = {
  channels: 3, full: "Full brightness",
  brush: (chosen) => [1, 3, 5].map((at) => parseInt(chosen.slice(at, at + 2), 16) / 255),
  laid: (before, share, brush) => before.map((value, c) => value + (brush[c] - value) * share),
  style: (pixel) => [`rgb(${pixel.map((value) => Math.round(255 * value)).join()})`, 1],
  fromImage: (levels) => levels,
};

// how pixels of so many channels are drawn; undefined if they are not
export function penFor(channels) { return [INK, COLOUR].find((one) => one.channels === channels); }

// drew(text) gets the picture as numbers after each stroke
export function drawingPad({ rows, columns, pen, drew }) {
  const cell = PAD_SIDE / Math.max(rows, columns);
  const nothing = new Array(pen.channels).fill(0);
  let pixels = Array.from({ length: rows * columns }, () => nothing);
  const canvas = html("canvas", { width: 2 * cell * columns, height: 2 * cell * rows, "aria-hidden": "true" });
  const full = html("input", { type: "number", min: 0.01, max: 255, step: "any", value: FULL, onchange: () => tell() });
  const chosen = html("input", { type: "color", value: "#ffffff" });
  let here = [0, 0];
  const paint = () => {
    const context = canvas.getContext("2d");
    const ink = getComputedStyle(canvas).color;
    context.clearRect(0, 0, canvas.width, canvas.height);
    pixels.forEach((pixel, at) => {
      [context.fillStyle, context.globalAlpha] = pen.style(pixel, ink);
      context.fillRect(2 * cell * (at % columns), 2 * cell * Math.floor(at / columns), 2 * cell, 2 * cell);
    });
  };
  const tell = () => {
    if (pixels.some((pixel) => pixel.some((value) => value > 0))) drew(pixels.flat().map((value) => Number((value * (Number(full.value) || FULL)).toFixed(2))).join(" "));
  };
  const dab = (y, x) => {
    const brush = pen.brush(chosen.value);
    pixels = pixels.map((pixel, at) => {
      const share = Math.min(1, 1.4 * (1 - Math.hypot(Math.floor(at / columns) + 0.5 - y, (at % columns) + 0.5 - x) / BRUSH));
      return share > 0 ? pen.laid(pixel, share, brush) : pixel;
    });
  };
  const { whole, readout } = withCursor({
    drawing: canvas, rows, columns, label: "Draw here: arrows move, the space bar inks or clears a pixel", at: here, moved: (i, j) => { here = [i, j]; },
    box: (i, j) => ({ left: j * cell, top: i * cell, width: cell, height: cell }),
    words: (i, j) => `row ${i + 1}, column ${j + 1}: ${pixels[i * columns + j].map(short).join(" ")}`, find: (x, y) => [y / cell, x / cell],
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
    pixels[at] = pixels[at].some((value) => value > 0) ? nothing : pen.brush(chosen.value);
    paint();
    tell();
  });
  // an image file, made as large as the pad
  const load = async (file) => {
    const small = html("canvas", { width: columns, height: rows }).getContext("2d");
    small.drawImage(await createImageBitmap(file), 0, 0, columns, rows);
    const { data } = small.getImageData(0, 0, columns, rows);
    pixels = pen.fromImage(pixels.map((_, at) => Array.from(data.subarray(4 * at, 4 * at + 3), (level) => level / 255)));
    paint();
    tell();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  const clear = html("button", { type: "button", class: "plain", onclick: () => { pixels = pixels.map(() => nothing); paint(); } }, "Clear");
  const field = (words, input) => html("label", { class: "field" }, html("span", {}, words), input);
  if (pen.channels > 1) paint(); // black, where ink shows the paper
  return {
    load,
    element: html("div", { class: "pad" }, whole, html("div", { class: "beside-pad" }, readout, html("p", { class: "note" }, "Draw with the mouse or a finger; or drop an image."),
      pen.channels > 1 ? field("Colour", chosen) : null, field(pen.full, full), clear)),
  };
}
