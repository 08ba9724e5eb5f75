// A matrix on canvas: cells by colour, a cursor that the mouse and the arrow keys move, and numbers to read.

import { html, svg, clipped, exact, movement, place, textWidth } from "./look-dom.js";

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

function geometry(found, queries, keys, width) {
  const longest = (tokens) => Math.min(84, Math.max(12, ...tokens.slice(0, 400).map((token) => textWidth(token, CELL_FONT))));
  const roomy = (size) => size >= LEAST;
  let left = longest(queries) + 12;
  let cell = Math.min(34, (width - left - 2) / Math.max(1, found.columns));
  if (!roomy(cell)) { left = 2; cell = Math.min(34, (width - 4) / Math.max(1, found.columns)); }
  const tall = Math.min(34, Math.max(cell, found.rows > 80 ? 0 : Math.min(cell * 2, 14)), Math.max(1.2, 640 / found.rows));
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
  pen.strokeStyle = colour("--line");
  if (laid.cell > 9 && laid.tall > 9) {
    pen.strokeStyle = colour("--paper");
    pen.beginPath();
    for (let j = 1; j < found.columns; j += 1) { pen.moveTo(laid.left + j * laid.cell, laid.top); pen.lineTo(laid.left + j * laid.cell, laid.top + laid.tall * found.rows); }
    for (let i = 1; i < found.rows; i += 1) { pen.moveTo(laid.left, laid.top + i * laid.tall); pen.lineTo(laid.left + laid.cell * found.columns, laid.top + i * laid.tall); }
    pen.stroke();
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
  if (laid.named.rows) queries.forEach((token, i) => body.push(svg("text", { class: "tiny end", x: laid.left - 7, y: laid.top + (i + 0.5) * laid.tall + 4 }, clipped(token, 84, CELL_FONT))));
  if (laid.named.columns) {
    keys.forEach((token, j) => {
      const at = `translate(${laid.left + (j + 0.5) * laid.cell + 3} ${laid.top - 6})`;
      body.push(svg("text", { class: laid.tilted ? "tiny" : "tiny middle", transform: laid.tilted ? `${at} rotate(-60)` : at }, clipped(token, 84, CELL_FONT)));
    });
  }
  body.push(svg("rect", { class: "rim", x: laid.left, y: laid.top, width: laid.cell * found.columns, height: laid.tall * found.rows }));
  return svg("svg", { class: "fig", width, height: laid.height, viewBox: `0 0 ${width} ${laid.height}` }, body);
}

// a table of all cells, or of the largest of every row where there are many
export function matrixTable(found, queries, keys) {
  const value = (i, j) => found.values[i * found.columns + j];
  if (found.rows * found.columns <= 1600) {
    return { head: ["", ...keys], rows: queries.slice(0, found.rows).map((token, i) => [token, ...keys.map((_, j) => exact(value(i, j)))]) };
  }
  const best = (i) => keys.map((token, j) => [token, j]).sort((a, b) => value(i, b[1]) - value(i, a[1])).slice(0, 3);
  return {
    head: ["", "largest", "second", "third"],
    rows: queries.slice(0, found.rows).map((token, i) => [`${i + 1} ${token}`, ...best(i).map(([key, j]) => `${key} ${exact(value(i, j))}`)]),
  };
}

// the matrix with its cursor; picked(i, j) is called whenever the cursor moves
export function matrixView({ found, queries, keys, width, label, at = [0, 0], picked = () => {} }) {
  const laid = geometry(found, queries, keys, width);
  const canvas = html("canvas", { "aria-hidden": "true" });
  paint(canvas, found, queries, keys, laid, width);
  const readout = html("p", { class: "readout" });
  const cell = html("div", { role: "gridcell", tabindex: "0", class: "cursor" });
  const row = html("div", { role: "row" }, cell);
  const grid = html("div", { role: "grid", "aria-label": label, "aria-rowcount": found.rows, "aria-colcount": found.columns }, row);
  let [i, j] = [Math.min(at[0], found.rows - 1), Math.min(at[1], found.columns - 1)];
  const show = () => {
    const value = found.values[i * found.columns + j];
    const words = `${queries[i]} ← ${keys[j]}: ${exact(value)}`;
    row.setAttribute("aria-rowindex", i + 1);
    cell.setAttribute("aria-colindex", j + 1);
    cell.setAttribute("aria-label", words);
    cell.dataset.value = String(value);
    readout.textContent = words;
    place(cell, { left: `${laid.left + j * laid.cell}px`, top: `${laid.top + i * laid.tall}px`, width: `${laid.cell}px`, height: `${laid.tall}px` });
    picked(i, j);
  };
  const move = (row_, column) => { i = Math.max(0, Math.min(found.rows - 1, row_)); j = Math.max(0, Math.min(found.columns - 1, column)); show(); };
  grid.addEventListener("keydown", (event) => {
    const step = movement(event);
    if (!step) return;
    event.preventDefault();
    if (step.to) move(event.ctrlKey ? (step.to === "start" ? 0 : found.rows - 1) : i, step.to === "start" ? 0 : found.columns - 1);
    else move(i + step.down, j + step.across);
  });
  const pointed = (event) => {
    const box = canvas.getBoundingClientRect();
    const [row_, column] = [Math.floor((event.clientY - box.top - laid.top) / laid.tall), Math.floor((event.clientX - box.left - laid.left) / laid.cell)];
    if (row_ >= 0 && column >= 0 && row_ < found.rows && column < found.columns) move(row_, column);
  };
  const whole = html("div", { class: "matrix", onpointermove: pointed, onclick: pointed }, canvas, grid);
  show();
  return html("div", {}, whole, readout);
}
