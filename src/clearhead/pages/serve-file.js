// A file of lines: answered in parts, with progress, and saved as a file with one answer a line.

import { html } from "./look-dom.js";
import { saveFile } from "./look-figure.js";
import { Trouble, request } from "./serve-api.js";

const PART_LINES = 64;
const PART_CHARACTERS = 60000;
const AT_ONCE = 3; // requests
const MOST_BYTES = 50e6; // of a file, which is held in memory

export function linesOf(text) {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

// an answer as one line of a file, as clearhead run writes it
function oneLine(text) {
  const lines = text.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/);
  if (lines.at(-1) === "") lines.pop();
  return lines.join(" ");
}

// where each request begins and ends
function parts(lines) {
  const found = [];
  let [from, size] = [0, 0];
  lines.forEach((line, at) => {
    if (at > from && (at - from >= PART_LINES || size + line.length > PART_CHARACTERS)) { found.push([from, at]); [from, size] = [at, 0]; }
    size += line.length;
  });
  return [...found, [from, lines.length]];
}

// answer some lines by one request; if that is too much for the server, by two
async function answerSome(lines, first, body, options) {
  try {
    return (await request("/api/run", { ...body, lines, first, details: true }, { ...options, tries: Infinity })).results;
  } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    if ((error.kind === "large" || error.kind === "late") && lines.length > 1) {
      const half = Math.ceil(lines.length / 2);
      return [...await answerSome(lines.slice(0, half), first, body, options), ...await answerSome(lines.slice(half), first + half, body, options)];
    }
    throw new Trouble(error.kind, `${lines.length > 1 ? `Lines ${first + 1} to ${first + lines.length}` : `Line ${first + 1}`}: ${error.message}`);
  }
}

// answer all lines, several requests at a time; told(done) after each
async function answerAll(lines, body, { controller, told, waiting }) {
  const [found, waits] = [new Array(lines.length), parts(lines)];
  let done = 0;
  const work = async () => {
    for (let next = waits.shift(); next; next = waits.shift()) {
      const [from, to] = next;
      const some = await answerSome(lines.slice(from, to), from, body, { signal: controller.signal, waiting });
      some.forEach((one, i) => { found[from + i] = one; });
      done += some.length;
      told(done);
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  } catch (error) {
    controller.abort(); // the other requests are of no use any more
    throw error;
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

// the panel: choose or drop a file, see how far it is, stop it, save the answers; body() says how to answer, image(file) may take an image
export function filePanel({ body, say, image }) {
  const shown = html("div", { class: "file-shown" });
  const input = html("input", { type: "file", class: "hidden", accept: ".txt,.tsv,.csv,text/*", tabindex: "-1", "aria-hidden": "true", onchange: () => { if (input.files[0]) take(input.files[0]); input.value = ""; } });
  const choose = html("button", { type: "button", class: "plain", onclick: () => input.click() }, "Choose a file");
  let controller = null;
  const tell = (words, kind = "note") => { shown.replaceChildren(html("p", { class: kind }, words)); say(words); };
  const take = async (file) => {
    if (file.type.startsWith("image/") && image(file)) return;
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
      const found = await answerAll(lines, body(), { controller: own, told, waiting: (seconds) => { words.textContent = `The server is busy; going on in ${seconds} s.`; } });
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
    const here = shown.contains(document.activeElement); // never take the focus from who types meanwhile
    const first = html("button", { type: "button", class: "main", onclick: () => saveFile(found.map((one) => `${oneLine(one.answers[0].text)}\n`).join(""), `${stem}.answers.txt`, "text/plain") }, "Save answers");
    shown.replaceChildren(
      html("p", {}, `${name}: ${counted(lines.length, "line")} answered${warned ? `, ${counted(warned, "line")} with a warning` : ""}.`),
      html("div", { class: "row" }, first,
        html("button", { type: "button", class: "plain", onclick: () => saveFile(asJsonLines(lines, found), `${stem}.answers.jsonl`, "application/jsonl") }, "Save as JSONL")),
    );
    say(`${counted(lines.length, "line")} answered: save them with the button Save answers`);
    if (here) first.focus({ preventScroll: true });
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
