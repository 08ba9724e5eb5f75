// The document of a view: matrices unpacked when they are needed, tokens as people read them, weights by measure.

const STEPS = 65535;

function bytes(text) {
  const binary = atob(text);
  const found = new Uint8Array(binary.length);
  for (let i = 0; i < found.length; i += 1) found[i] = binary.charCodeAt(i);
  return found.buffer;
}

// a matrix from its packed form or from rows; values by row
export function matrix(held) {
  if (!held) return null;
  if (Array.isArray(held)) {
    const columns = Math.max(0, ...held.map((row) => row.length));
    const values = new Float64Array(held.length * columns);
    held.forEach((row, i) => values.set(row, i * columns));
    return { rows: held.length, columns, values };
  }
  const [rows, columns] = held.shape;
  const scales = new Float32Array(bytes(held.scales));
  const weights = new Uint16Array(bytes(held.weights));
  const values = new Float64Array(weights.length);
  for (let i = 0; i < values.length; i += 1) values[i] = (weights[i] / STEPS) * scales[Math.floor(i / columns)];
  return { rows, columns, values };
}

export function rowOf(found, index) {
  return Array.from(found.values.subarray(index * found.columns, (index + 1) * found.columns));
}

export function shares(values) {
  const sum = values.reduce((total, value) => total + value, 0);
  return sum > 0 ? values.map((value) => value / sum) : values;
}

// tokens with marks for what cannot be seen: a space that begins a word is ␣
export function readable(tokens) {
  return tokens.map((token) => token.replace(/^ /, "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "∅");
}

const SENTENCE = {
  norms: "share of the norms ‖α v W‖ of all heads, averaged over layers",
  attention: "attention weights, averaged over heads and layers",
  rollout: "rollout: attention followed through all layers",
  inputs: "integrated gradients: what each token adds to the logit",
  occlusion: "occlusion: how far log p falls without the token",
};
export const MEASURES = Object.keys(SENTENCE);

export class Look {
  constructor(held) {
    this.held = held;
    this.source = readable(held.source || []);
    this.answer = readable(held.answer || []);
    this.inputs = readable((held.inputs_of || {}).decoder || []);
    this.family = held.family;
    this.oneSided = !held.attention?.cross && !held.norms?.cross && !!held.attention?.encoder; // encoders and classifiers
    this.kept = new Map();
  }

  token(text) { return readable([text])[0]; }

  // the row of the matrices at which an answer token is predicted; null where nothing predicts it
  row(at) { return this.held.rows ? this.held.rows[at] ?? null : at; }

  // the place in the source of a gap of an encoder; null for a classifier
  place(at) { return this.family === "encoder" ? this.row(at) : null; }

  // what labels the queries and the keys of a stack
  labels(stack) {
    const queries = stack === "encoder" ? this.source : this.inputs.length ? this.inputs : this.answer;
    return { queries, keys: stack === "decoder" ? queries : this.source };
  }

  once(key, make) {
    if (!this.kept.has(key)) this.kept.set(key, make());
    return this.kept.get(key);
  }

  stacks(kind = "attention") { return Object.keys(this.held[kind] || {}); }

  // the matrix of one head; layers and heads are counted from 1
  head(kind, stack, layer, head) {
    return this.once([kind, stack, layer, head].join(), () => matrix(this.held[kind]?.[stack]?.[layer - 1]?.[head - 1]));
  }

  // by its name; its attention where the document has nothing else
  named(name, kind) {
    const [stack, ...numbers] = name.split(".");
    return this.head(kind, stack, ...numbers) || this.head("attention", stack, ...numbers);
  }

  headNames(stack) {
    const layers = this.held.attention?.[stack] || this.held.norms?.[stack] || [];
    return layers.flatMap((heads, l) => (heads || []).flatMap((head, h) => (head ? [`${stack}.${l + 1}.${h + 1}`] : [])));
  }

  // all heads of a stack as one matrix: rows are shares
  total(kind, stack) {
    return this.once([kind, stack].join(), () => {
      const layers = (this.held[kind]?.[stack] || []).map(
        (heads, l) => (heads || []).map((_, h) => this.head(kind, stack, l + 1, h + 1)).filter((found) => found),
      ).filter((heads) => heads.length);
      if (!layers.length) return null;
      const { rows, columns } = layers[0][0];
      const sum = new Float64Array(rows * columns);
      for (const heads of layers) {
        for (let i = 0; i < rows; i += 1) {
          const row = new Float64Array(columns);
          let all = 0;
          for (const { values } of heads) {
            for (let j = 0; j < columns; j += 1) { row[j] += values[i * columns + j]; all += values[i * columns + j]; }
          }
          if (all > 0) for (let j = 0; j < columns; j += 1) sum[i * columns + j] += row[j] / all / layers.length;
        }
      }
      return { rows, columns, values: sum };
    });
  }

  rollout(stack) { return this.once(`rollout,${stack}`, () => matrix(this.held.rollout?.[stack])); }

  entry(name, at) { return (this.held[name] || []).find((one) => one.at === at) || null; }

  // measures that the document holds, the most faithful first, and those that can be asked for
  measures(more = []) {
    return MEASURES.filter((name) => {
      const held = this.held[name];
      return more.includes(name) || (Array.isArray(held) ? held.length : held && Object.keys(held).length);
    });
  }

  // from where an answer token comes: numbers for source and prefix, or null where the document has none
  from(measure, at) {
    const found = { measure, source: null, prefix: null, sentence: SENTENCE[measure], signed: false, missing: null };
    if (measure === "inputs" || measure === "occlusion") {
      const one = this.entry(measure, at);
      if (!one) return { ...found, missing: `clearhead look … --at ${at + 1} --show ${measure}` };
      const note = measure === "inputs" ? ` (Δ ${one.delta.toFixed(4)}, error ${(100 * Math.abs(one.error)).toFixed(2)} %, ${one.steps} steps)` : "";
      const { source = null, prefix = null } = one;
      // what is hidden of a language model is what it has read
      const sides = this.source.length ? { source, prefix } : { prefix: prefix || source.slice(0, this.row(at) + 1) };
      return { ...found, ...sides, signed: true, sentence: found.sentence + note };
    }
    if (this.oneSided) {
      const where = this.place(at);
      const full = measure === "rollout" ? this.rollout("encoder") : this.total(measure, "encoder");
      if (!full) return found;
      return { ...found, source: where === null ? columnMeans(full) : rowOf(full, where) };
    }
    const index = this.row(at);
    if (index === null) return found;
    if (measure === "rollout") {
      const full = this.rollout("decoder");
      if (!full) return found;
      const row = rowOf(full, index);
      const n = this.source.length;
      return { ...found, source: n ? row.slice(0, n) : null, prefix: row.slice(n, n + index + 1) };
    }
    const cross = this.total(measure, "cross");
    const own = this.total(measure, "decoder");
    return {
      ...found, source: cross ? rowOf(cross, index) : null, prefix: own ? rowOf(own, index).slice(0, index + 1) : null,
    };
  }

  // a matrix of shares from answer to source, for ribbons: of all heads by a measure, or of one head
  joined(measure, name) {
    if (name && name.startsWith("cross.")) {
      const found = this.named(name, measure === "attention" ? measure : "norms");
      return found && matrix(Array.from({ length: found.rows }, (_, i) => shares(rowOf(found, i))));
    }
    const list = this.answer.map((_, at) => this.from(measure, at).source);
    if (list.every((row) => row === null)) return null;
    const n = this.source.length;
    return matrix(list.map((row) => (row === null ? new Array(n).fill(0) : shares(row.map(Math.abs)))));
  }

  // the document's entry of parts at a step, against a token or alone
  parts(at, against = null) {
    return (this.held.parts || []).find((one) => one.at === at && (one.against ?? null) === against) || null;
  }

  rivals(at) { return (this.held.parts || []).filter((one) => one.at === at && one.against).map((one) => one.against); }

  probability(at) {
    const value = (this.held.log_probabilities || [])[at];
    return value === null || value === undefined ? null : Math.exp(value);
  }

  isOff(name) { return (this.held.without || []).includes(name); }

  about(name) { return (this.held.heads || []).find((head) => head.name === name) || null; }
}

function columnMeans(found) {
  return Array.from({ length: found.columns }, (_, j) => {
    let sum = 0;
    for (let i = 0; i < found.rows; i += 1) sum += found.values[i * found.columns + j];
    return sum / found.rows;
  });
}
