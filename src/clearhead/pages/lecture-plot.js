// Heat maps, bars and lines as SVG, with the classes that the still figures of the page have.
import { numberText } from "./lecture-numbers.js";

const LETTER_WIDTH = 6.4;
const PLOT_WIDTH = 460;

function svgPart(name, attributes, text) {
  const part = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
  if (text !== undefined) part.textContent = text;
  return part;
}

function plotFrame(height, alt, parts, width = PLOT_WIDTH) {
  const frame = svgPart("svg", { class: "plot", role: "img", "aria-label": alt, viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}` });
  frame.append(...parts);
  return frame;
}

// values: rows of numbers; −Infinity is a masked cell, drawn crossed out
export function heatPlot({ alt, values, rows = [], columns = [], xLabel = "", yLabel = "", signed = false, full = 0, written = false }) {
  const left = Math.max(34, ...rows.map((row) => row.length * LETTER_WIDTH + 26));
  const side = Math.min((PLOT_WIDTH - left - 12) / values[0].length, 44);
  const tall = Math.min(side, Math.max(300 / values.length, 4));
  const top = columns.length ? 24 : 8;
  const seen = values.flat().filter(Number.isFinite).map(Math.abs);
  const most = full || Math.max(...seen) || 1;
  const parts = [];
  values.forEach((row, i) => row.forEach((value, j) => {
    const [x, y] = [left + j * side, top + i * tall];
    const box = { x: x.toFixed(1), y: y.toFixed(1), width: side.toFixed(1), height: tall.toFixed(1) };
    if (value === -Infinity) {
      parts.push(svgPart("path", { class: "masked", d: `M${x + 4} ${y + 4}l${side - 8} ${tall - 8}m0 ${8 - tall}l${8 - side} ${tall - 8}` }));
      return;
    }
    const strength = Math.min(Math.abs(value) / most, 1);
    parts.push(svgPart("rect", { ...box, class: signed && value < 0 ? "cold" : "heat", "fill-opacity": strength.toFixed(3), "shape-rendering": "crispEdges" }));
    if (written && side >= 30) {
      const shade = strength > 0.55 ? "middle small over" : "middle small";
      parts.push(svgPart("text", { class: shade, x: x + side / 2, y: y + tall / 2 + 4 }, value.toFixed(2).replace("-", "−")));
    }
  }));
  const [wide, high] = [values[0].length * side, values.length * tall];
  parts.push(svgPart("rect", { class: "edge", x: left, y: top, width: wide, height: high }));
  rows.forEach((name, i) => parts.push(svgPart("text", { class: "end small", x: left - 5, y: top + (i + 0.5) * tall + 4 }, name)));
  columns.forEach((name, j) => parts.push(svgPart("text", { class: "middle small", x: left + (j + 0.5) * side, y: top - 7 }, name)));
  parts.push(svgPart("text", { class: "middle", x: left + wide / 2, y: top + high + 18 }, xLabel));
  parts.push(svgPart("text", { class: "middle", transform: `translate(12 ${top + high / 2}) rotate(-90)` }, yLabel));
  return plotFrame(top + high + 26, alt, parts, Math.max(left + wide + 8, 250));
}

// bars: [label, value, index of a colour]; log: bars as long as the logarithm, for numbers that are far apart
export function barsPlot({ alt, bars, log = false }) {
  const left = Math.min(Math.max(...bars.map(([label]) => label.length)) * LETTER_WIDTH + 14, PLOT_WIDTH / 2);
  const wide = PLOT_WIDTH - left - 84;
  const length = (value) => (log ? Math.log10(1 + value) : value);
  const most = Math.max(...bars.map(([, value]) => length(value))) || 1;
  const parts = [];
  bars.forEach(([label, value, hue = 0], index) => {
    const y = 8 + 22 * index;
    const end = Math.max((length(value) / most) * wide, 0);
    parts.push(svgPart("text", { class: "end", x: left - 8, y: y + 13 }, label));
    parts.push(svgPart("rect", { class: `bar s${hue}`, x: left, y, width: end.toFixed(1), height: 17 }));
    parts.push(svgPart("text", { class: "small", x: left + end + 5, y: y + 12.5 }, numberText(value)));
  });
  parts.push(svgPart("line", { class: "axis", x1: left, x2: left, y1: 4, y2: 8 + 22 * bars.length }));
  return plotFrame(14 + 22 * bars.length, alt, parts);
}

const placeOn = (values, log) => {
  const on = (value) => (log ? Math.log10(Math.max(value, 1e-30)) : value);
  const [low, high] = [Math.min(...values.map(on)), Math.max(...values.map(on))];
  return (value) => (high > low ? (on(value) - low) / (high - low) : 0.5);
};

// series: {name, x, y}; marks: [x, y, label]; the ends of both axes are written
export function linesPlot({ alt, series, marks = [], xLabel, yLabel, logX = false, logY = false }) {
  const [left, top, wide, high] = [66, 14 + 18 * series.length, PLOT_WIDTH - 84, 190];
  const [xs, ys] = [series.flatMap((one) => one.x), series.flatMap((one) => one.y)];
  const [placeX, placeY] = [placeOn(xs, logX), placeOn(logY ? ys : [...ys, 0], logY)];
  const at = (x, y) => [left + placeX(x) * wide, top + high - placeY(y) * high];
  const dashes = ["", "6 3", "2 3", "8 3 2 3"];
  const parts = [];
  series.forEach(({ name, x, y }, index) => {
    const drawn = { class: `line s${index}`, ...(dashes[index] && { "stroke-dasharray": dashes[index] }) };
    parts.push(svgPart("line", { ...drawn, x1: left, x2: left + 24, y1: 10 + 18 * index, y2: 10 + 18 * index }));
    parts.push(svgPart("text", { x: left + 30, y: 14 + 18 * index }, name));
    parts.push(svgPart("polyline", { ...drawn, points: x.map((value, i) => at(value, y[i]).map((p) => p.toFixed(1)).join(",")).join(" ") }));
  });
  for (const [x, y, label] of marks) {
    const [px, py] = at(x, y);
    parts.push(svgPart("circle", { class: "mark", cx: px.toFixed(1), cy: py.toFixed(1), r: 4 }));
    const beside = px > left + wide / 2 ? ["end", px - 9] : ["start", px + 9];
    parts.push(svgPart("text", { class: beside[0], x: beside[1], y: py < top + high - 24 ? py + 18 : py - 12 }, label));
  }
  parts.push(svgPart("path", { class: "edge axis", d: `M${left} ${top}v${high}h${wide}` }));
  const [lowX, highX, highY] = [Math.min(...xs), Math.max(...xs), Math.max(...ys)];
  const lowY = logY ? Math.min(...ys) : Math.min(0, ...ys);
  parts.push(svgPart("text", { class: "small", x: left, y: top + high + 15 }, numberText(lowX)));
  parts.push(svgPart("text", { class: "end small", x: left + wide, y: top + high + 15 }, numberText(highX)));
  parts.push(svgPart("text", { class: "end small", x: left - 6, y: top + high }, numberText(lowY)));
  parts.push(svgPart("text", { class: "end small", x: left - 6, y: top + 9 }, numberText(highY)));
  parts.push(svgPart("text", { class: "middle", x: left + wide / 2, y: top + high + 32 }, xLabel));
  parts.push(svgPart("text", { class: "middle", transform: `translate(12 ${top + high / 2}) rotate(-90)` }, yLabel));
  return plotFrame(top + high + 40, alt, parts);
}
