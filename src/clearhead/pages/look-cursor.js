// A cursor over a drawing of rows and columns: the mouse and the arrow keys move it, and it says what it stands on.

import { html, movement, place } from "./look-dom.js";

// box(i, j) gives { left, top, width, height } in pixels, words(i, j) what is read out; moved(i, j) is called at every move
export function withCursor({ drawing, rows, columns, label, at, box, words, find, moved = () => {} }) {
  const readout = html("p", { class: "readout" });
  const cell = html("div", { role: "gridcell", tabindex: "0", class: "cursor" });
  const row = html("div", { role: "row" }, cell);
  const grid = html("div", { role: "grid", "aria-label": label, "aria-rowcount": rows, "aria-colcount": columns }, row);
  let [i, j] = [0, 0];
  const move = (down, across) => {
    i = Math.max(0, Math.min(rows - 1, down));
    j = Math.max(0, Math.min(columns - 1, across));
    row.setAttribute("aria-rowindex", i + 1);
    cell.setAttribute("aria-colindex", j + 1);
    cell.setAttribute("aria-label", words(i, j));
    readout.textContent = words(i, j);
    for (const [side, size] of Object.entries(box(i, j))) place(cell, { [side]: `${size}px` });
    moved(i, j);
  };
  grid.addEventListener("keydown", (event) => {
    const step = movement(event);
    if (!step) return;
    event.preventDefault();
    if (!step.to) move(i + step.down, j + step.across);
    else move(event.ctrlKey ? (step.to === "start" ? 0 : rows - 1) : i, step.to === "start" ? 0 : columns - 1);
  });
  const whole = html("div", { class: "matrix" }, drawing, grid);
  const pointed = (event) => {
    const home = whole.getBoundingClientRect();
    const [down, across] = find(event.clientX - home.left, event.clientY - home.top).map(Math.floor);
    if (down >= 0 && across >= 0 && down < rows && across < columns) move(down, across);
  };
  whole.addEventListener("pointermove", pointed);
  whole.addEventListener("click", pointed);
  move(...at);
  return { whole, readout };
}
