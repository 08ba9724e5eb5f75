// The chosen token: from where it comes, when it was settled, who wrote it.

import { html, exact, percent, short, signed } from "./look-dom.js";
import { figure } from "./look-figure.js";
import { bars, ladder, waterfall } from "./look-bars.js";

const MOST_ROWS = 12; // rows of a figure; the others are summed up or left to the table
const MOST_PARTS = 10;

// a name of a part as the heads are called elsewhere: decoder.2.cross.5 is cross.2.5
export function headOf(name, look) {
  const found = /^(encoder|decoder)\.(\d+)\.(\w+)\.(\d+)$/.exec(name);
  if (!found) return null;
  const stack = found[3] === "cross" ? "cross" : found[1];
  const head = `${stack}.${found[2]}.${found[4]}`;
  return look.headNames(stack).includes(head) ? head : null;
}

function partName(name, look) {
  const head = headOf(name, look);
  if (head) return head;
  return name.replace(/^(encoder|decoder)\.(\d+)\.feedforward$/, "feed-forward $2").replace(/^bias (?:encoder|decoder)\./, "bias ");
}

function strongest(rows) {
  if (rows.length <= MOST_ROWS) return rows;
  const kept = new Set([...rows].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, MOST_ROWS));
  return rows.filter((row) => kept.has(row));
}

function whereRows(look, from) {
  const rows = (values, labels, group) => (values || []).map((value, i) => ({ label: labels[i] ?? String(i + 1), value, group }));
  const both = from.source && from.prefix;
  return [
    strongest(rows(from.source, look.source, both ? "from the source" : null)),
    strongest(rows(from.prefix, look.inputs, both ? "from what was written before" : null)),
  ].flat();
}

function where(look, state, act) {
  const from = look.from(state.measure, state.at);
  const title = "From where";
  if (from.missing && look.held.refused?.[state.measure]) return missing(title, refusal(look, state.measure));
  if (from.missing && act.slow && look.row(state.at) !== null) return missing(title, act.slow.offer(look, state, act));
  if (from.missing) return missing(title, `The document has no ${state.measure} for this token.`, from.missing);
  const rows = whereRows(look, from);
  if (!rows.length) return missing(title, refusal(look, state.measure, "The document does not say."));
  return withNote(figure({
    title, name: "from-where",
    draw: (width) => bars({ rows: whereRows(look, from), width, label: `From where ${look.answer[state.at]} comes`, form: from.signed ? short : percent }),
    table: () => ({
      head: ["token", state.measure],
      rows: [...(from.source || []).map((v, i) => [look.source[i], exact(v)]), ...(from.prefix || []).map((v, i) => [`${look.inputs[i]} (before)`, exact(v)])],
    }),
  }), from.sentence);
}

function when(look, state) {
  const stack = look.oneSided ? "encoder" : "decoder";
  const at = look.row(state.at) ?? -1;
  const layers = look.held.lens?.[stack];
  const token = look.answer[state.at];
  const title = "When";
  if (!layers) return look.held.refused?.lens ? missing(title, refusal(look, "lens", "")) : null;
  const rungs = layers.map((positions, layer) => ({
    name: layer ? `layer ${layer}` : "embedding",
    found: (positions[at] || []).map((one) => ({ token: look.token(one.token), probability: one.probability })),
  }));
  const deep = (look.held.decoder_lens || []).flatMap((one, layer) => {
    return [{ name: layer ? `layer ${layer}` : "embedding", found: [{ token: look.token(one.text[state.at]), probability: Math.exp(one.log_probabilities[state.at]) }] }];
  });
  const first = rungs.findIndex((rung, i) => rungs.slice(i).every((later) => later.found[0]?.token === token));
  const settled = first < 0 ? "The lens of the last layer gives another token." : `First choice from ${rungs[first].name} on.`;
  const made = figure({
    title, name: "when",
    draw: (width) => ladder({ rungs, width, label: `The likely tokens at every layer; ${settled}`, token }),
    table: () => ({ head: ["layer", "first", "second", "third"], rows: [...rungs, ...deep].map((rung) => [rung.name, ...rung.found.map((one) => `${one.token} ${exact(one.probability)}`)]) }),
  });
  const box = withNote(made, `Logit lens: what each layer would write, in %. ${settled}`);
  if (deep.length) {
    const second = figure({
      title: "Over an encoder layer", name: "decoder-lens", level: "h4",
      draw: (width) => ladder({ rungs: deep, width, label: "DecoderLens", token }),
      table: () => ({ head: ["encoder layer", `written, and p of ${token}`], rows: deep.map((rung) => [rung.name, `${rung.found[0].token} ${exact(rung.found[0].probability)}`]) }),
    });
    box.append(second.element, html("p", { class: "note" }, `DecoderLens: what would be written if the decoder read this layer of the encoder, and the probability of ${token} in %.`));
  }
  return box;
}

// the largest parts in order, the others as one
function summed(parts) {
  const order = [...parts].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const others = order.slice(MOST_PARTS);
  const rest = { name: `${others.length} others`, value: others.reduce((sum, part) => sum + part.value, 0) };
  return others.length > 1 ? [...order.slice(0, MOST_PARTS), rest] : order;
}

function who(look, state, act) {
  const title = "Who";
  const rivals = look.rivals(state.at);
  const against = rivals.includes(state.against) ? state.against : null;
  const found = look.parts(state.at, against);
  const token = look.answer[state.at];
  if (!found) {
    const refused = look.held.refused?.parts;
    return refused ? missing(title, `${refused}.`) : missing(title, "The document has no parts for this token.", `clearhead look … --at ${state.at + 1} --show parts`);
  }
  const rival = against === null ? null : look.token(against);
  const menu = rivals.length ? html(
    "label", { class: "menu" }, "against ",
    html("select", { onchange: (event) => act.against(event.target.value || null) },
      html("option", { value: "" }, "nothing"), rivals.map((one) => html("option", { value: one, selected: one === against }, look.token(one)))),
  ) : null;
  const made = figure({
    title, name: "who", tools: [menu],
    draw: (width) => waterfall({
      parts: summed(found.parts), logit: found.logit, width, label: `Parts of the logit of ${token}`,
      nameOf: (name) => partName(name, look), open: (name) => { const head = headOf(name, look); return head && (() => act.head(head)); },
    }),
    table: () => ({ head: ["part", "value"], rows: [...found.parts.map((part) => [partName(part.name, look), exact(part.value)]), ["logit", exact(found.logit)]] }),
  });
  const sum = found.parts.reduce((total, part) => total + part.value, 0);
  const of = rival ? `logit of ${token} − logit of ${rival}` : `logit of ${token}`;
  return withNote(made, `${found.parts.length} parts add up to the ${of}: ${signed(sum)}.`);
}

function withNote(made, note) {
  return html("section", { class: "answer" }, made.element, html("p", { class: "note" }, note));
}

function missing(title, words, command = null) {
  return html("section", { class: "answer" }, html("h3", {}, title), html("p", { class: "note" }, words),
    command && html("p", { class: "note" }, html("code", {}, command)));
}

function refusal(look, name, otherwise) {
  const reason = look.held.refused?.[name];
  return reason ? `${reason}.` : otherwise;
}

// the heading of the chosen token, and the three answers
export function chosenPanel(look, state, act) {
  const { at } = state;
  const p = look.probability(at);
  const others = (look.held.alternatives?.[at] || []).filter((one) => look.token(one.token) !== look.answer[at]).slice(0, 4);
  return [
    html("header", { class: "chosen-title" },
      html("h2", { id: "chosen" }, look.answer[at]),
      html("p", {}, look.answer.length > 1 ? `token ${at + 1} of ${look.answer.length}` : null,
        p === null ? null : html("span", {}, look.answer.length > 1 ? " · " : "", "p = ", html("b", { "data-p": p }, exact(p))),
        others.length ? " · or " : null,
        others.map((one, i) => [i ? ", " : "", html("span", { class: "rival" }, look.token(one.token)), ` ${percent(one.probability)}`]))),
    html("div", { class: "three" }, where(look, state, act), when(look, state), who(look, state, act)),
  ];
}
