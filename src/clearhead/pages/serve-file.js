// A file of lines: answered in parts, with progress, and saved as a file with one answer a line.

import { html } from "./look-dom.js";
import { saveFile } from "./look-figure.js";
import { Trouble, request } from "./serve-api.js";

const PART_LINES = 64;
const PART_CHARACTERS = 60000;
const MOST_BYTES = 50e6; // of a file, which is held in memory

export function linesOf(text) {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

// the next lines that make one request
function nextLines(lines, from, most) {
  let [to, size] = [from, 0];
  while (to < lines.length && to - from < most && (to === from || size + lines[to].length <= PART_CHARACTERS)) { size += lines[to].length; to += 1; }
  return lines.slice(from, to);
}

// answer all lines in order; told(done) after each part; a part that is too large is halved
export async function answerAll(lines, body, { signal, told, waiting }) {
  const found = [];
  let most = PART_LINES;
  while (found.length < lines.length) {
    const some = nextLines(lines, found.length, most);
    try {
      const reply = await request("/api/run", { ...body, lines: some, details: true }, { signal, waiting, tries: Infinity });
      found.push(...reply.results);
      told(found.length);
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      if ((error.kind === "large" || error.kind === "late") && some.length > 1) { most = Math.ceil(some.length / 2); continue; }
      error.message = `Line ${(found.length + 1).toLocaleString("en")}${some.length > 1 ? " or one of the next" : ""}: ${error.message}`;
      throw error;
    }
  }
  return found;
}

function asJsonLines(lines, found) {
  return lines.map((line, i) => {
    const { text, log_probability: logP, finished } = found[i].answers[0];
    const { warnings } = found[i];
    return `${JSON.stringify({ text: line, answer: text, log_probability: logP, finished, ...(warnings.length && { warnings }) })}\n`;
  }).join("");
}

const counted = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;

// the panel: choose or drop a file, see how far it is, stop it, save the answers; body() says how to answer
export function filePanel({ body, say }) {
  const shown = html("div", { class: "file-shown" });
  const input = html("input", { type: "file", class: "hidden", accept: ".txt,.tsv,.csv,text/*", tabindex: "-1", "aria-hidden": "true", onchange: () => { if (input.files[0]) take(input.files[0]); input.value = ""; } });
  const choose = html("button", { type: "button", class: "plain", onclick: () => input.click() }, "Choose a file");
  let controller = null;
  const tell = (words, kind = "note") => { shown.replaceChildren(html("p", { class: kind }, words)); say(words); };
  const take = async (file) => {
    if (file.size > MOST_BYTES) { tell(`${file.name} has more than ${MOST_BYTES / 1e6} MB: use clearhead run for it.`, "trouble"); return; }
    await run(linesOf(await file.text()), file.name);
  };
  const run = async (lines, name) => {
    controller?.abort();
    if (!lines.length) { tell(`${name} is empty.`, "trouble"); return; }
    const own = new AbortController();
    controller = own;
    const bar = html("progress", { max: lines.length, value: 0, "aria-label": `Lines of ${name} that are answered` });
    const words = html("p", { class: "note" }, `${name}: ${counted(lines.length, "line")}`);
    const stop = html("button", { type: "button", class: "plain", onclick: () => own.abort() }, "Cancel");
    shown.replaceChildren(html("div", { class: "working" }, bar, stop), words);
    say(`Answering ${counted(lines.length, "line")} of ${name}`);
    const began = performance.now();
    const told = (done) => {
      bar.value = done;
      const rate = done / (performance.now() - began) * 1000;
      const left = Math.ceil((lines.length - done) / rate);
      words.textContent = `${name}: ${done.toLocaleString("en")} of ${counted(lines.length, "line")}, ${rate.toFixed(rate < 10 ? 1 : 0)} a second${left > 3 ? `, about ${left} s left` : ""}`;
    };
    try {
      const found = await answerAll(lines, body(), { signal: own.signal, told, waiting: (seconds) => { words.textContent = `The server is busy; going on in ${seconds} s.`; } });
      if (controller !== own) return;
      finished(lines, found, name);
    } catch (error) {
      if (controller !== own) return;
      tell(error.name === "AbortError" ? `${name}: cancelled, nothing was saved.` : error.message, error.name === "AbortError" ? "note" : "trouble");
    }
  };
  const finished = (lines, found, name) => {
    const stem = name.replace(/\.\w+$/, "");
    const warned = found.filter((one) => one.warnings.length).length;
    const first = html("button", { type: "button", class: "main", onclick: () => saveFile(found.map((one) => `${one.answers[0].text.replace(/[\r\n]+/g, " ")}\n`).join(""), `${stem}.answers.txt`, "text/plain") }, "Save answers");
    shown.replaceChildren(
      html("p", {}, `${name}: ${counted(lines.length, "line")} answered${warned ? `, ${counted(warned, "line")} with a warning` : ""}.`),
      html("div", { class: "row" }, first,
        html("button", { type: "button", class: "plain", onclick: () => saveFile(asJsonLines(lines, found), `${stem}.answers.jsonl`, "application/jsonl") }, "Save as JSONL")),
    );
    say(`${counted(lines.length, "line")} answered: save them with the button Save answers`);
    first.focus({ preventScroll: true });
  };
  const panel = html("section", { class: "file", "aria-label": "A file of lines" },
    html("p", { class: "row" }, choose, input, html("span", { class: "note" }, "or drop it anywhere: one text a line in, one answer a line out")), shown);
  addEventListener("dragover", (event) => { event.preventDefault(); panel.classList.add("over"); });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) panel.classList.remove("over"); });
  addEventListener("drop", (event) => {
    event.preventDefault();
    panel.classList.remove("over");
    const file = event.dataTransfer?.files[0];
    if (file) take(file);
  });
  return { panel, run };
}
