// Makes the figures of the lecture page live: reads the controls, computes, draws, and says the result in words.
// A figure is a function of its settings that returns {said, facts, pictures, numbers}; ``numbers`` is kept unrounded
// on the element, where the tests read it.
import { numberText } from "./lecture-numbers.js";
import { choiceFigure, maskFigure, orderFigure, scaleFigure } from "./lecture-attention.js";
import { normFigure, residualFigure, sinusoidsFigure } from "./lecture-blocks.js";
import { headsFigure, linformerFigure, sizesFigure, spanFigure, tableOneFigure } from "./lecture-cost.js";

const LIVING_FIGURES = {
  choice: choiceFigure, heads: headsFigure, linformer: linformerFigure, mask: maskFigure, norm: normFigure,
  order: orderFigure, residual: residualFigure, scale: scaleFigure, sinusoids: sinusoidsFigure, sizes: sizesFigure,
  span: spanFigure, "table-one": tableOneFigure,
};

function settingOf(control) {
  if (control.type === "checkbox") return control.checked;
  if (control.type !== "range") return control.value;
  const value = Number(control.value);
  return control.dataset.base ? Number(control.dataset.base) ** value : value;
}

function captionedPicture({ title, drawn }) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  caption.textContent = title;
  figure.append(caption, drawn);
  return figure;
}

function factEntry([name, value]) {
  const [entry, term, told] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
  term.textContent = name;
  told.textContent = typeof value === "number" ? numberText(value) : value;
  entry.append(term, told);
  return entry;
}

function showFigure(section) {
  const settings = {};
  for (const control of section.querySelectorAll("input, select")) {
    settings[control.name] = settingOf(control);
    if (control.type === "range") {
      const text = numberText(settings[control.name]);
      control.setAttribute("aria-valuetext", text);
      section.querySelector(`output[for="${control.id}"]`).textContent = text;
    }
  }
  const { said, facts, pictures, numbers } = LIVING_FIGURES[section.dataset.living](settings);
  section.querySelector("[role=status]").textContent = said;
  section.querySelector(".facts").replaceChildren(...facts.map(factEntry));
  section.querySelector(".pictures").replaceChildren(...pictures.map(captionedPicture));
  section.numbers = { settings, ...numbers };
}

for (const section of document.querySelectorAll("[data-living]")) {
  const first = [...section.querySelectorAll("input, select")].map((control) => [control, control.value, control.checked]);
  section.addEventListener("input", () => showFigure(section));
  section.querySelector("button").addEventListener("click", () => {
    for (const [control, value, checked] of first) Object.assign(control, { value, checked });
    showFigure(section);
  });
  section.hidden = false;
  showFigure(section);
}
for (const link of document.querySelectorAll("[data-living-link]")) link.hidden = false;
