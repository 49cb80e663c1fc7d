// Talking to the server: one question at a time, and of those that wait only the latest.

// What to tell a person when a question gets no answer.
export class Trouble extends Error {}

async function checked(response) {
  if (response.ok) return response;
  let message = `the server answered ${response.status}`;
  try {
    message = (await response.json()).error || message;
  } catch { /* not JSON: the status is all there is to say */ }
  const trouble = new Trouble(message);
  trouble.status = response.status;
  throw trouble;
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Trouble("the server does not answer; is hnets demo still running?");
  }
}

export async function get(path) {
  return (await checked(await reach(path))).json();
}

export async function post(path, body, how = "json") {
  const options = { method: "POST", body, headers: { "Content-Type": "application/octet-stream" } };
  return (await checked(await reach(path, options)))[how]();
}

// A function that runs `ask` on the newest argument it was called with. While an answer is awaited
// newer arguments replace one another, so a hand that drags is followed and never queued up.
export function latest(ask) {
  let waiting = null, busy = false;
  async function run() {
    busy = true;
    while (waiting) {
      const [argument] = waiting;
      waiting = null;
      await ask(argument);
      await new Promise(requestAnimationFrame);
    }
    busy = false;
  }
  return (argument) => {
    waiting = [argument];
    if (!busy) run();
  };
}

export function bytes(text, kind) {
  const raw = atob(text), values = new kind(raw.length);
  for (let i = 0; i < raw.length; i++) values[i] = raw.charCodeAt(i);
  return values;
}
