// Requests to the server: one at a time, and of those that wait only the latest.

export const $ = (id) => document.getElementById(id);

// A failed request, with a message for the user.
export class RequestError extends Error {}

async function checked(response) {
  if (response.ok) return response;
  let message = `the server responded with status ${response.status}`;
  try {
    message = (await response.json()).error || message;
  } catch { /* not JSON: only the status is known */ }
  throw new RequestError(message);
}

async function send(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new RequestError("the server does not respond; is hnets demo still running?");
  }
}

// Shows an error in its place on the page, or hides the place if there is none.
export function report(place, error) {
  place.hidden = !error;
  place.textContent = error ? `That did not work: ${error.message}.` : "";
}

export async function get(path, type = "json") {
  return (await checked(await send(path)))[type]();
}

export async function post(path, body, type = "json") {
  const options = { method: "POST", body, headers: { "Content-Type": "application/octet-stream" } };
  return (await checked(await send(path, options)))[type]();
}

// A function that calls `request` with the newest argument it was called with. While a response is
// awaited newer arguments replace one another, so that dragging never builds up a queue.
export function latest(request) {
  let waiting = null, busy = false;
  async function run() {
    busy = true;
    while (waiting) {
      const [argument] = waiting;
      waiting = null;
      await request(argument);
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
