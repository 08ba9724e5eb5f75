// Requests to the server: JSON, answers that arrive piece by piece, and what went wrong in words for people.

const MOST_TRIES = 8; // while the server is busy
const LONGEST_WAIT = 20; // seconds between two of them

// something went wrong: kind is busy, late, large, token, refused, broken or gone
export class Trouble extends Error {
  constructor(kind, message, after = 0) {
    super(message);
    this.kind = kind;
    this.after = after; // seconds after which to try again
  }
}

let secret = "";
export function useToken(token) { secret = token; }

function kindOf(status) {
  return { 401: "token", 413: "large", 503: "busy", 504: "late" }[status] || (status < 500 ? "refused" : "broken");
}

function troubleOf(status, held, after) {
  const kind = kindOf(status);
  const { message = "", where = "" } = typeof held?.error === "object" ? held.error : {};
  const said = where && message && !message.startsWith(where) ? `${where}: ${message}` : message;
  return new Trouble(kind, {
    busy: "The server is busy.", late: "This took longer than the server allows. Try a shorter text, or a smaller beam.",
    large: `That is too much for one request${said ? `: ${said}` : "."}`, token: secret ? "This is not the server's token." : "This server asks for a token.",
    broken: said || `The server failed (status ${status}). Its own output says more.`,
  }[kind] || said || `The server refused this (status ${status}).`, after);
}

async function sent(path, body, signal) {
  const headers = { ...(body && { "Content-Type": "application/json" }), ...(secret && { Authorization: `Bearer ${secret}` }) };
  const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
  if (response.ok) return response;
  const held = await response.json().catch(() => null);
  throw troubleOf(response.status, held, Number(response.headers.get("Retry-After")) || 1);
}

// what fetch throws when nobody answers is no trouble of ours: it is one for people
function asTrouble(error) {
  if (error instanceof Trouble || error.name === "AbortError") return error;
  return new Trouble("gone", "The server does not answer. Is clearhead serve still running?");
}

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const leave = () => { clearTimeout(timer); reject(signal.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", leave); resolve(); }, 1000 * seconds);
    signal?.addEventListener("abort", leave, { once: true });
  });
}

// do something, and again while the server is busy; waiting(seconds) is told before each pause
async function patiently(work, { signal, waiting = () => {}, tries = MOST_TRIES }) {
  for (let left = tries; ; left -= 1) {
    try {
      return await work();
    } catch (error) {
      const trouble = asTrouble(error);
      if (trouble.kind !== "busy" || left <= 1) throw trouble;
      const seconds = Math.min(LONGEST_WAIT, trouble.after);
      waiting(seconds);
      await pause(seconds, signal);
    }
  }
}

export function request(path, body, options = {}) {
  return patiently(async () => (await sent(path, body, options.signal)).json(), options);
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (held + value).split("\n\n");
    held = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
  }
}

// one line, answered piece by piece: wrote(text) gets all that is written so far; returns the whole result
export function stream(body, wrote, options = {}) {
  return patiently(async () => {
    let text = "";
    wrote(text);
    for await (const event of events(await sent("/api/run", { ...body, stream: true }, options.signal))) {
      if (event.error) throw troubleOf({ busy: 503, late: 504 }[event.error.code] || 500, event, 1);
      if (event.done) return event.done;
      text += event.text;
      wrote(text);
    }
    throw new Trouble("gone", "The connection ended before the answer was whole.");
  }, options);
}
