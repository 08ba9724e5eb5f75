// What the look has only beside a server: what changed without some heads, and measures that take a while, integrated
// gradients and occlusion, which are computed when they are asked for.

import { html } from "./look-dom.js";

const SLOW_WORDS = {
  inputs: "Integrated gradients take some runs of the model, forwards and backwards.",
  occlusion: "Occlusion takes a run of the model for each token.",
};

// what stands in place of the title, below the answer
export function withoutBar(look, act) {
  const off = look.held.without || [];
  return off.length ? html("p", { class: "off" }, `Without ${off.join(", ")} the answer is `, html("b", {}, look.held.answer_text),
    " ", html("button", { type: "button", class: "quiet", onclick: () => act.ask({ without: [] }) }, "all heads on")) : "";
}

// take in what another document of the same answer has of a measure: its entries, or why there are none
function add(held, measure, next) {
  const { [measure]: entries = [], refused = {} } = next;
  const places = entries.map((one) => one.at);
  held[measure] = [...(held[measure] || []).filter((one) => !places.includes(one.at)), ...entries];
  if (refused[measure]) held.refused = { ...held.refused, [measure]: refused[measure] };
}

async function compute(ask, look, state, act) {
  const { measure, at } = state;
  act.set({ computing: true });
  act.say("computing");
  const next = await ask({ show: [measure], at, without: look.held.without || [] });
  if (next) add(look.held, measure, next);
  act.set({ computing: false });
  if (!next) return;
  act.root.querySelector(`fieldset.choice input[value="${measure}"]`)?.focus({ preventScroll: true }); // the button is gone
  act.say(`${measure} of ${look.answer[at]}: there`);
}

// for show() of a page that has a server: ask(request) gets another document, or null
export function slowMeasures(ask) {
  return {
    measures: Object.keys(SLOW_WORDS),
    offer: (look, state, act) => [SLOW_WORDS[state.measure], " ",
      html("button", { type: "button", class: "plain", disabled: state.computing, onclick: () => compute(ask, look, state, act) },
        state.computing ? "computing …" : state.measure === "inputs" ? `compute them for ${look.answer[state.at]}` : "compute it")],
  };
}
