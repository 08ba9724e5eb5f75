// A matrix on canvas: cells by colour, a cursor that the mouse and the arrow keys move, and numbers to read.

import { html, svg, box, words, clipped, exact, place, textWidth } from "./look-dom.js";
import { withCursor } from "./look-cursor.js";

const CELL_FONT = "12px system-ui, sans-serif";
const LEAST = 11; // pixels of a cell below which tokens are not written beside it

function colour(name) { return getComputedStyle(document.body).getPropertyValue(name).trim(); }

function channels(name) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.fillStyle = colour(name);
  pen.fillRect(0, 0, 1, 1);
  return pen.getImageData(0, 0, 1, 1).data;
}

// the numbers as an image, one pixel a cell; a sequential scale from the page's ground to its colour
export function imageOf(found) {
  const canvas = html("canvas", { width: Math.max(1, found.columns), height: Math.max(1, found.rows) });
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(canvas.width, canvas.height);
  const [none, full] = [channels("--cell"), channels("--accent")];
  const most = found.values.reduce((a, b) => Math.max(a, b), 0) || 1;
  for (let i = 0; i < found.values.length; i += 1) {
    const share = found.values[i] / most;
    for (let k = 0; k < 3; k += 1) image.data[4 * i + k] = none[k] + share * (full[k] - none[k]);
    image.data[4 * i + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

function geometry(found, queries, keys, width, most = 34) {
  const longest = (tokens) => Math.min(84, Math.max(12, ...tokens.slice(0, 400).map((token) => textWidth(token, CELL_FONT))));
  const roomy = (size) => size >= LEAST;
  let left = longest(queries) + 12;
  let cell = Math.min(most, (width - left - 2) / Math.max(1, found.columns));
  const spill = longest(keys) > cell - 2 ? longest(keys) / 2 : 0; // the last tilted name stands over the edge
  cell = Math.min(cell, (width - left - spill) / Math.max(1, found.columns));
  if (!roomy(cell)) { left = 2; cell = Math.min(most, (width - 4) / Math.max(1, found.columns)); }
  const tall = Math.min(most, Math.max(cell, found.rows > 80 ? 0 : Math.min(cell * 2, 14)), Math.max(1.2, 640 / found.rows));
  const tilted = keys.some((token) => textWidth(token, CELL_FONT) > cell - 2);
  const top = roomy(cell) ? (tilted ? longest(keys) * 0.88 + 14 : 22) : 4;
  const named = { rows: roomy(tall) && left > 2, columns: roomy(cell) };
  return { left, top, cell, tall, tilted, named, height: Math.ceil(top + tall * found.rows + 4) };
}

function paint(canvas, found, queries, keys, laid, width) {
  const scale = Math.min(3, window.devicePixelRatio || 1);
  Object.assign(canvas, { width: Math.ceil(width * scale), height: Math.ceil(laid.height * scale) });
  place(canvas, { width: `${width}px`, height: `${laid.height}px` });
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(imageOf(found), laid.left, laid.top, laid.cell * found.columns, laid.tall * found.rows);
  if (laid.cell > 9 && laid.tall > 9) {
    pen.fillStyle = colour("--paper");
    for (let j = 1; j < found.columns; j += 1) pen.fillRect(laid.left + j * laid.cell - 0.5, laid.top, 1, laid.tall * found.rows);
    for (let i = 1; i < found.rows; i += 1) pen.fillRect(laid.left, laid.top + i * laid.tall - 0.5, laid.cell * found.columns, 1);
  }
  pen.fillStyle = colour("--ink");
  pen.font = CELL_FONT;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  if (laid.named.rows) queries.forEach((token, i) => pen.fillText(clipped(token, 84, CELL_FONT), laid.left - 7, laid.top + (i + 0.5) * laid.tall));
  if (!laid.named.columns) return;
  keys.forEach((token, j) => {
    pen.save();
    pen.translate(laid.left + (j + 0.5) * laid.cell, laid.top - 7);
    pen.textAlign = laid.tilted ? "left" : "center";
    if (laid.tilted) pen.rotate(-Math.PI / 3);
    pen.fillText(clipped(token, 84, CELL_FONT), 0, laid.tilted ? 0 : -3);
    pen.restore();
  });
}

// the same as SVG, for a file: a square for every cell, or one image where these would be too many
export function matrixPicture(found, queries, keys, width = 640) {
  const laid = geometry(found, queries, keys, width);
  const most = found.values.reduce((a, b) => Math.max(a, b), 0) || 1;
  const body = [];
  if (found.values.length <= 10000) {
    found.values.forEach((value, at) => {
      const [i, j] = [Math.floor(at / found.columns), at % found.columns];
      body.push(svg("rect", {
        class: "heat", x: (laid.left + j * laid.cell).toFixed(2), y: (laid.top + i * laid.tall).toFixed(2), width: laid.cell.toFixed(2),
        height: laid.tall.toFixed(2), "fill-opacity": (value / most).toFixed(4),
      }, svg("title", {}, exact(value))));
    });
  } else {
    body.push(svg("image", { x: laid.left, y: laid.top, width: laid.cell * found.columns, height: laid.tall * found.rows,
      preserveAspectRatio: "none", href: imageOf(found).toDataURL() }));
  }
  if (laid.named.rows) queries.forEach((token, i) => body.push(words("tiny end", laid.left - 7, laid.top + (i + 0.5) * laid.tall + 4, clipped(token, 84, CELL_FONT))));
  if (laid.named.columns) {
    keys.forEach((token, j) => {
      const at = `translate(${laid.left + (j + 0.5) * laid.cell + 3} ${laid.top - 6})`;
      body.push(svg("text", { class: laid.tilted ? "tiny" : "tiny middle", transform: laid.tilted ? `${at} rotate(-60)` : at }, clipped(token, 84, CELL_FONT)));
    });
  }
  body.push(box("rim", laid.left, laid.top, laid.cell * found.columns, laid.tall * found.rows));
  return svg("svg", { class: "fig", width, height: laid.height, viewBox: `0 0 ${width} ${laid.height}` }, body);
}

// a table of all cells, or of the largest of every row where there are many
export function matrixTable(found, queries, keys) {
  const value = (i, j) => found.values[i * found.columns + j];
  if (found.rows * found.columns <= 1600) {
    return { head: ["token", ...keys], rows: queries.slice(0, found.rows).map((token, i) => [token, ...keys.map((_, j) => exact(value(i, j)))]) };
  }
  const best = (i) => keys.map((token, j) => [token, j]).sort((a, b) => value(i, b[1]) - value(i, a[1])).slice(0, 3);
  return {
    head: ["token", "largest", "second", "third"],
    rows: queries.slice(0, found.rows).map((token, i) => [`${i + 1} ${token}`, ...best(i).map(([key, j]) => `${key} ${exact(value(i, j))}`)]),
  };
}

// the matrix with its cursor; picked(i, j) is called whenever the cursor moves
export function matrixView({ found, queries, keys, width, label, most = 34, at = [0, 0], picked }) {
  const laid = geometry(found, queries, keys, width, most);
  const canvas = html("canvas", { "aria-hidden": "true" });
  paint(canvas, found, queries, keys, laid, width);
  const { whole, readout } = withCursor({
    drawing: canvas, rows: found.rows, columns: found.columns, label, at, moved: picked,
    box: (i, j) => ({ left: laid.left + j * laid.cell, top: laid.top + i * laid.tall, width: laid.cell, height: laid.tall }),
    words: (i, j) => `${queries[i]} ← ${keys[j]}: ${exact(found.values[i * found.columns + j])}`,
    find: (x, y) => [(y - laid.top) / laid.tall, (x - laid.left) / laid.cell],
  });
  return html("div", {}, whole, readout);
}
