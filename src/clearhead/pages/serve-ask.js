// The form: a text, how to answer it, and what of that the server needs to know.

import { html } from "./look-dom.js";
import { drawingPad, penFor } from "./serve-pad.js";

const WORDS = {
  seq2seq: ["Text", "Type a text and press Enter"], recurrent: ["Text", "Type a text and press Enter"],
  lm: ["Beginning", "Begin a text and press Enter to have it continued"], encoder: ["Text with a gap", "A text with a gap"],
  classifier: ["Text", "A text to classify"],
};

const MOST_NUMBERS = 4096; // of a picture that is drawn by hand

function numberField(label, name, value, { least, most, step = 1, empty = "" }, changed) {
  return html("label", { class: "field" }, html("span", {}, label),
    html("input", { type: "number", name, min: least, max: most, step, value: value ?? "", placeholder: empty, inputmode: "decimal", onchange: changed }));
}

// settings that suit a family; read(seed) gives { alternatives, settings }, with this seed unless there is one in the form
export function settingsPanel(facts, changed) {
  const own = facts.decoding; // what is answered by where nothing is said
  const form = html("div", { class: "fields" });
  const field = (name) => form.querySelector(`[name="${name}"]`);
  const sampled = () => field("sample")?.checked || false;
  const toggled = () => {
    for (const name of ["temperature", "top_k", "seed"]) field(name).closest("label").hidden = !sampled();
    for (const name of ["beam_size", "alternatives"]) field(name).closest("label").hidden = sampled();
    changed();
  };
  if (facts.streams) {
    form.append(
      numberField("Beam", "beam_size", null, { least: 1, most: 64, empty: String(facts.beam_size) }, changed),
      numberField("Alternatives", "alternatives", 4, { least: 1, most: 16 }, changed),
      html("label", { class: "field check" }, html("input", { type: "checkbox", name: "sample", checked: own.sample, onchange: toggled }), html("span", {}, "Sample")),
      numberField("Temperature", "temperature", own.temperature, { least: 0.05, most: 5, step: 0.05 }, changed),
      numberField("Top k", "top_k", own.top_k, { least: 1, most: 1e8, empty: "all" }, changed),
      numberField("Seed", "seed", null, { least: 0, most: 2 ** 53 - 1, empty: "another each time" }, changed),
    );
    toggled();
  }
  const value = (name) => { const input = field(name); return input && input.value !== "" && input.validity.valid ? Number(input.value) : null; };
  const read = (seed) => {
    const settings = {};
    if (sampled()) {
      Object.assign(settings, { sample: true, seed: value("seed") ?? seed, temperature: value("temperature") ?? own.temperature, top_k: value("top_k") });
    } else {
      if (own.sample) settings.sample = false;
      if (value("beam_size") !== null) settings.beam_size = value("beam_size");
    }
    const beam = settings.beam_size ?? facts.beam_size;
    return { settings, sampled: sampled(), beam, alternatives: facts.streams && !sampled() ? value("alternatives") ?? 1 : 1, live: facts.streams && (sampled() || beam === 1) };
  };
  return { form, read };
}

// the text field with its buttons; asked(text) is called by Enter or the button, stopped() by the other one
export function askForm({ asked, stopped, tuned }) {
  const input = html("textarea", { id: "text", rows: "1", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-keyshortcuts": "Enter" });
  const label = html("label", { for: "text" });
  const go = html("button", { type: "submit", class: "main" }, "Answer");
  const stop = html("button", { type: "button", class: "plain", hidden: true, onclick: () => stopped() }, "Stop");
  const extra = html("span", { class: "row" });
  const pad = html("div");
  let drawing = null;
  const tune = html("button", { type: "button", class: "quiet tune", "aria-expanded": "false", onclick: () => tune.setAttribute("aria-expanded", String(tuned())) }, "Settings");
  const grow = () => {
    input.style.height = "auto";
    input.style.height = `${Math.min(input.scrollHeight + 2, 0.4 * innerHeight)}px`;
  };
  const form = html("form", { class: "ask", onsubmit: (event) => { event.preventDefault(); asked(input.value); } },
    pad, label, html("div", { class: "entry" }, input), html("div", { class: "row buttons" }, go, stop, extra, tune));
  input.addEventListener("input", grow);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") stopped();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    asked(input.value);
  });
  const insert = (text) => {
    input.setRangeText(text, input.selectionStart, input.selectionEnd, "end");
    input.focus();
    grow();
  };
  const suitPad = ({ picture }) => {
    const [rows, columns, channels] = picture || [];
    const pen = penFor(channels);
    drawing = pen && rows * columns * channels <= MOST_NUMBERS ? drawingPad({ rows, columns, pen, drew: (text) => { input.value = text; grow(); asked(text); } }) : null;
    pad.replaceChildren(drawing?.element || "");
  };
  return {
    form, input,
    // an image file, if this model can be drawn for
    image(file) { if (drawing) drawing.load(file); return Boolean(drawing); },
    put(text) { input.value = text; grow(); },
    busy(on) { stop.hidden = !on; },
    suit(facts) {
      const [name, hint] = facts.reads === "picture" ? ["Picture", "Pixels row by row, separated by spaces"] : WORDS[facts.family] || WORDS.seq2seq;
      label.textContent = name;
      suitPad(facts);
      input.classList.toggle("pixels", facts.reads === "picture");
      tune.hidden = !facts.streams;
      input.placeholder = facts.mask ? `${hint}, written ${facts.mask}` : hint;
      extra.replaceChildren(facts.mask ? html("button", { type: "button", class: "plain", onclick: () => insert(facts.mask) }, `Insert ${facts.mask}`) : "");
      grow();
    },
  };
}
