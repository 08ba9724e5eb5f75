// The page of a server: ask, answer, look inside, files, the model, and what was answered before.

import { announcer, html } from "./look-dom.js";
import { FAMILY, show } from "./look.js";
import { request, stream, useToken } from "./serve-api.js";
import { askForm, settingsPanel } from "./serve-ask.js";
import { alternatives, candidates, whole, written } from "./serve-answer.js";
import { aboutModel } from "./serve-about.js";
import { slowMeasures, withoutBar } from "./serve-look.js";
import { filePanel, linesOf } from "./serve-file.js";

const MOST_KEPT = 12; // earlier answers
const MOST_LINKED = 2000; // characters of a text that the address holds

function linked() {
  const found = new URLSearchParams(location.hash.slice(1));
  return { text: found.get("text"), model: found.get("model") };
}

// what went wrong, and the way on: again, or a token
function troubleBox(error, again) {
  if (error.kind !== "token") return html("div", { class: "trouble", role: "alert" }, html("p", {}, error.message), again && error.kind !== "refused" ? html("button", { type: "button", class: "plain", onclick: again }, "Try again") : null);
  const field = html("input", { type: "password", id: "token", autocomplete: "off", required: true });
  return html("form", { class: "trouble token", onsubmit: (event) => { event.preventDefault(); useToken(field.value.trim()); again(); } },
    html("label", { for: "token" }, error.message), html("div", { class: "row" }, field, html("button", { type: "submit", class: "main" }, "Use it")));
}

export class ServePage {
  constructor(root) {
    this.root = root;
    const { region, say } = announcer();
    this.say = say;
    this.number = 0; // of the latest question: what belongs to an older one is not shown
    this.kept = [];
    this.inside = false;
    this.ask = askForm({ asked: (text) => this.asked(text), stopped: () => this.stop(), tuned: () => { this.tuning.hidden = !this.tuning.hidden; return !this.tuning.hidden; } });
    this.answer = html("section", { class: "reply", "aria-label": "Answer" });
    this.look = html("section", { class: "look", "aria-label": "Inside the model" });
    this.earlier = html("section", { class: "earlier" });
    this.tuning = html("div", { class: "tuning", hidden: true });
    this.about = html("details", { class: "more", ontoggle: () => { if (this.about.open) this.tellAbout(); } });
    this.files = filePanel({ body: () => ({ model: this.facts.name, settings: this.settings.read(this.facts.decoding.seed).settings }), say, image: (file) => this.ask.image(file) });
    this.head = html("header", { class: "bar" });
    this.main = html("main", {}, this.ask.form, this.tuning, this.answer, this.look, this.files.panel, this.earlier, this.about);
    root.replaceChildren(this.head, this.main, region);
    addEventListener("hashchange", () => this.follow());
    this.start();
  }

  async start() {
    this.main.hidden = true;
    this.head.replaceChildren(this.brand());
    try {
      const { models } = await request("/api/models", null, { waiting: () => this.say("The server is busy") });
      this.models = models;
      this.trouble?.remove();
      this.main.hidden = false;
      this.choose(linked().model, { quietly: true });
      this.follow();
      if (!this.ask.input.value) this.ask.input.focus({ preventScroll: true });
    } catch (error) {
      this.trouble?.remove();
      this.trouble = html("div", { class: "start" }, troubleBox(error, () => this.start()));
      this.head.after(this.trouble);
    }
  }

  brand() { return html("h1", { class: "brand" }, html("b", {}, "clearhead")); }

  // take a model by its name, or the first one
  choose(name, { quietly = false } = {}) {
    this.facts = this.models.find((one) => one.name === name) || this.models[0];
    const { facts } = this;
    const picker = this.models.length > 1
      ? html("label", { class: "picker" }, html("span", { class: "hidden" }, "Model"), html("select", { onchange: (event) => this.choose(event.target.value) }, this.models.map((one) => html("option", { value: one.name, selected: one === facts }, one.name))))
      : html("b", {}, facts.name);
    this.head.replaceChildren(this.brand(), html("p", { class: "model" }, picker, html("span", { class: "soft" }, `${FAMILY[facts.family] || facts.family} · ${facts.parameters.toLocaleString("en")} parameters`)));
    this.ask.suit(facts);
    this.settings = settingsPanel(facts, () => {});
    this.tuning.replaceChildren(this.settings.form);
    this.about.open = false;
    this.about.replaceChildren(html("summary", {}, "About this model"));
    document.title = `${facts.name} · clearhead`;
    if (quietly) return;
    this.stop();
    this.answer.replaceChildren();
    this.look.replaceChildren();
    this.say(`Model ${facts.name}`);
    if (this.ask.input.value.trim()) this.asked(this.ask.input.value);
  }

  // the text and the model of the address
  follow() {
    if (!this.facts) return;
    const { text, model } = linked();
    if (model && model !== this.facts.name && this.models.some((one) => one.name === model)) this.choose(model, { quietly: true });
    if (text && text !== this.shown) { this.ask.put(text); this.asked(text); }
  }

  stop() { this.controller?.abort(); }

  // whether a question is still the latest one
  current(number) { return number === this.number; }

  async asked(text) {
    const lines = linesOf(text).filter((line) => line.trim());
    if (!lines.length) { this.ask.input.focus(); return; }
    if (lines.length > 1 && this.facts.reads !== "picture") { this.files.run(lines, "text.txt"); this.files.panel.scrollIntoView({ block: "nearest" }); return; }
    const line = lines.join(" ");
    this.stop();
    this.number += 1;
    const { number, facts } = this;
    const own = new AbortController();
    this.controller = own;
    this.shown = line;
    history.replaceState(null, "", `#${new URLSearchParams({ ...(line.length <= MOST_LINKED && { text: line }), ...(this.models.length > 1 && { model: facts.name }) })}`);
    this.ask.busy(true);
    this.look.replaceChildren();
    this.answer.setAttribute("aria-busy", "true");
    const how = this.settings.read(number);
    const body = { model: facts.name, lines: [line], settings: how.settings };
    const draw = (...parts) => { if (this.current(number)) this.answer.replaceChildren(...parts.filter(Boolean)); };
    const options = {
      signal: own.signal,
      waiting: (seconds) => { const words = `The server is busy; asking again in ${seconds} s.`; draw(html("p", { class: "note" }, words)); this.say(words); },
    };
    const wrote = (said) => { partly = said; draw(written(facts, line, said, { writing: true })); };
    let partly = "";
    wrote("");
    try {
      const result = how.live ? await stream(body, wrote, options) : (await request("/api/run", { ...body, details: true, n_best: Math.min(how.alternatives, how.beam) }, options)).results[0];
      if (!this.current(number)) return;
      this.finished(line, result, how, draw);
      if (how.live && how.alternatives > 1) this.others(line, result.answers[0], how, options, number);
    } catch (error) {
      if (!this.current(number)) return;
      if (error.name === "AbortError") draw(partly && written(facts, line, partly), html("p", { class: "note" }, "Stopped."));
      else draw(troubleBox(error, () => this.asked(line)));
    } finally {
      if (this.current(number)) { this.ask.busy(false); this.answer.removeAttribute("aria-busy"); }
    }
  }

  finished(line, result, how, draw) {
    const { facts } = this;
    const [best] = result.answers;
    const lookAt = (at) => this.lookInside(line, best, how, at);
    const button = html("button", { type: "button", class: "plain", "aria-expanded": String(this.inside), onclick: () => {
      this.inside = !this.inside;
      button.setAttribute("aria-expanded", String(this.inside));
      if (this.inside) lookAt(); else this.look.replaceChildren();
    } }, "Look inside");
    this.button = button;
    this.beside = html("div", { class: "beside" }, candidates(facts, best), alternatives(result.answers, null, "Answers, the best first"));
    draw(
      written(facts, line, whole(facts, line, best, lookAt)),
      best.finished === false ? html("p", { class: "note" }, "It reached the length limit before its end.") : null,
      result.warnings.length ? html("ul", { class: "warnings" }, result.warnings.map((words) => html("li", {}, words))) : null,
      html("div", { class: "row" }, button, how.sampled ? html("button", { type: "button", class: "plain", onclick: () => this.asked(line) }, "Again") : null),
      this.beside,
    );
    this.say(`${line}: ${best.text || "an empty answer"}`);
    this.keep(line, best.text);
    if (this.inside) lookAt();
  }

  // what a beam finds beside an answer that was written token by token; it may fail without a word
  async others(line, best, how, { signal }, number) {
    const width = how.alternatives;
    try {
      const reply = await request("/api/run", { model: this.facts.name, lines: [line], details: true, n_best: width, settings: { ...how.settings, beam_size: width } }, { signal, tries: 2 });
      if (this.current(number)) this.beside.append(alternatives(reply.results[0].answers, best.text, `What a beam of ${width} finds`) || "");
    } catch { /* the answer is there already */ }
  }

  async lookInside(line, best, how, at) {
    this.inside = true;
    this.button.setAttribute("aria-expanded", "true");
    const { number, facts } = this;
    const target = how.sampled ? { target: best.text } : {};
    this.looking?.abort();
    const own = new AbortController();
    this.looking = own;
    const fresh = () => this.current(number) && this.looking === own;
    const ask = async (change) => {
      this.look.setAttribute("aria-busy", "true");
      try {
        return await request("/api/look", { line, model: facts.name, settings: how.settings, ...target, ...change }, { signal: own.signal, waiting: (seconds) => this.say(`The server is busy; asking again in ${seconds} s.`) });
      } catch (error) {
        if (fresh() && error.name !== "AbortError") this.look.prepend(troubleBox(error, null));
        return null;
      } finally { if (fresh()) this.look.removeAttribute("aria-busy"); }
    };
    this.look.replaceChildren(html("p", { class: "note" }, "Looking inside …"));
    const held = await ask({});
    if (!held || !fresh()) { if (fresh()) this.look.querySelector(".note")?.remove(); return; }
    this.look.replaceChildren();
    const place = at === undefined ? undefined : Math.min(at + (held.given || 0), held.answer.length - 1);
    const another = (change) => ask(change).then((next) => (fresh() ? next : null));
    show(held, this.look, { ask: another, slow: slowMeasures(another), inside: withoutBar, kept: { at: place } });
    if (at !== undefined) this.look.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    this.say("Looked inside");
  }

  keep(line, text) {
    this.kept = [{ line, text, model: this.facts.name }, ...this.kept.filter((one) => one.line !== line || one.model !== this.facts.name)].slice(0, MOST_KEPT);
    const before = this.kept.slice(1);
    this.earlier.replaceChildren(...(before.length ? [html("h2", {}, "Earlier"), html("ul", {}, before.map((one) => html("li", {},
      html("button", { type: "button", class: "again", onclick: () => { if (one.model !== this.facts.name) this.choose(one.model, { quietly: true }); this.ask.put(one.line); this.asked(one.line); this.ask.input.focus(); } },
        html("span", {}, one.line), html("span", { class: "soft" }, " → "), html("span", {}, one.text || "∅")),
      this.models.length > 1 ? html("span", { class: "soft" }, one.model) : null)))] : []));
  }

  async tellAbout() {
    if (this.about.querySelector(".about")) return;
    const { facts, about } = this;
    const place = html("div", {}, html("p", { class: "note" }, "One moment …"));
    about.replaceChildren(about.querySelector("summary"), place);
    try {
      const told = await request(`/api/models/${encodeURIComponent(facts.name)}`, null, {});
      if (facts === this.facts) place.replaceChildren(aboutModel(told, this.say));
    } catch (error) {
      place.replaceChildren(troubleBox(error, () => this.tellAbout()));
    }
  }
}
