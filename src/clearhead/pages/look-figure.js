// The frame of a figure: a title, the drawing, the same as a table, and the drawing as a file.

import { html, svg } from "./look-dom.js";

// rules of the page that a drawing needs when it stands alone: the light palette, and what begins with .fig
function ownStyle() {
  const kept = [];
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      if (/^(:root|\.fig\b)/.test(rule.selectorText || "")) kept.push(rule.cssText);
    }
  }
  return kept.join("\n");
}

// a drawing as the text of a file
export function fileOf(drawing, title) {
  const copy = drawing.cloneNode(true);
  for (const element of [copy, ...copy.querySelectorAll("*")]) {
    for (const { name } of [...element.attributes]) {
      if (/^(aria-|tabindex|role|data-|style)/.test(name)) element.removeAttribute(name);
    }
  }
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("class", "fig");
  copy.prepend(svg("title", {}, title), svg("style", {}, ownStyle()));
  return `${new XMLSerializer().serializeToString(copy)}\n`;
}

export function saveFile(text, name, type) {
  const link = html("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function tableOf({ head, rows }, label) {
  return html(
    "div", { class: "wide", tabindex: "0", role: "region", "aria-label": `${label}, as a table` },
    html(
      "table", {},
      html("thead", {}, html("tr", {}, head.map((name) => html("th", { scope: "col" }, name)))),
      html("tbody", {}, rows.map((row) => html("tr", {}, row.map((cell, i) => (
        i ? html("td", { class: "number" }, cell) : html("th", { scope: "row" }, cell)
      ))))),
    ),
  );
}

// a figure; draw(width) returns what is shown, picture() the SVG for a file, table() the head and the rows of a table
export function figure({ title, name, draw, picture, table, level = "h3", tools = [] }) {
  const drawn = html("div", { class: "drawn" });
  const beside = html("div", { class: "astable", hidden: true });
  const asTable = table && html("button", {
    type: "button", class: "quiet", "aria-expanded": "false", title: `${title}: as a table`,
    onclick: () => {
      beside.hidden = !beside.hidden;
      asTable.setAttribute("aria-expanded", String(!beside.hidden));
      beside.replaceChildren(...(beside.hidden ? [] : [tableOf(table(), title)]));
    },
  }, "Table");
  const asFile = html("button", {
    type: "button", class: "quiet", title: `${title}: save as SVG`,
    onclick: () => saveFile(fileOf(picture ? picture() : drawn.querySelector("svg"), title), `${name}.svg`, "image/svg+xml"),
  }, "SVG");
  const element = html(
    "figure", { class: "figure", "data-figure": name },
    html("figcaption", {}, html(level, {}, title), html("span", { class: "tools" }, ...tools, asTable, asFile)),
    drawn, beside,
  );
  const redraw = () => {
    const width = drawn.clientWidth;
    if (width > 0) drawn.replaceChildren(draw(width));
    if (!beside.hidden) beside.replaceChildren(tableOf(table(), title));
  };
  let last = 0;
  const watching = new ResizeObserver(() => {
    if (drawn.clientWidth === last) return;
    last = drawn.clientWidth;
    redraw();
  });
  watching.observe(drawn);
  return { element, redraw, drawn };
}
