// The turntable: draw on the disc, rotate the ring, and see the predictions of two networks.
import { $, bytes, latest, post, report } from "./api.js";
import * as pad from "./pad.js";
import { paintArrows, paintGrey, paintMap, sharp, unpack } from "./paint.js";

let angle = 0, drawing = null, round = null, spinning = 0;
const followers = [];

// Calls back with the drawing and its angle whenever one of them changes.
export function follow(callback) { followers.push(callback); }
export function current() { return { drawing, angle }; }

// The dial ------------------------------------------------------------------------------------

function rotateTo(degrees) {
  angle = ((degrees % 360) + 360) % 360;
  const shown = Math.round(angle) % 360;
  $("angle").textContent = `${shown}°`;
  const dial = $("dial");
  dial.setAttribute("aria-valuenow", shown);
  dial.setAttribute("aria-valuetext", `${shown} degrees`);
  const radians = angle * Math.PI / 180, reach = 46;
  dial.style.left = `${50 - reach * Math.sin(radians)}%`;
  dial.style.top = `${50 - reach * Math.cos(radians)}%`;
  dial.style.rotate = `${-angle}deg`;
  pad.paint(angle);
  if (drawing) update();
}

function handle() {
  const dial = $("dial"), table = $("turntable");
  let held = null, finger = 0;  // that rotates the ring, or the mouse
  const pointed = (event) => {
    const box = table.getBoundingClientRect();
    const x = event.clientX - box.left - box.width / 2, y = event.clientY - box.top - box.height / 2;
    return { angle: Math.atan2(-x, -y) * 180 / Math.PI, radius: Math.hypot(x, y) / (box.width / 2) };
  };
  table.addEventListener("pointerdown", (event) => {
    if (event.target === $("pad") || pointed(event).radius < 0.7 || event.button) return;
    if (held !== null && event.pointerId !== finger) return;
    event.preventDefault();
    finger = event.pointerId;
    stopSpin();
    dial.focus({ preventScroll: true });
    held = pointed(event).angle - angle;
    if (event.target !== dial) held = 0;  // a click on the ring brings the handle there
    table.setPointerCapture(event.pointerId);
    rotateTo(pointed(event).angle - held);
  });
  table.addEventListener("pointermove", (event) => {
    if (held !== null && event.pointerId === finger) rotateTo(pointed(event).angle - held);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    table.addEventListener(end, (event) => { if (event.pointerId === finger) held = null; });
  }
  dial.addEventListener("keydown", (event) => {
    const steps = {
      ArrowRight: 5, ArrowUp: 5, ArrowLeft: -5, ArrowDown: -5, PageUp: 45, PageDown: -45,
    };
    const to = event.key in steps ? angle + steps[event.key] : { Home: 0, End: 355 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    stopSpin();
    rotateTo(Math.round(to));
  });
}

function stopSpin() {
  cancelAnimationFrame(spinning);
  spinning = 0;
  $("spin").setAttribute("aria-pressed", "false");
}

function spin() {
  if (spinning) return stopSpin();
  $("spin").setAttribute("aria-pressed", "true");
  let before = performance.now();
  const frame = (now) => {
    rotateTo(angle + Math.min(100, now - before) * 0.045);
    before = now;
    spinning = requestAnimationFrame(frame);
  };
  spinning = requestAnimationFrame(frame);
}

// The predictions -----------------------------------------------------------------------------

const predict = latest(async ({ drawing: body, angle: degrees }) => {
  try {
    const prediction = await post(`api/digit?angle=${degrees.toFixed(1)}`, body);
    if (body !== drawing) return;
    report($("digit-error"), null);
    show(prediction);
  } catch (error) {
    report($("digit-error"), error);
  }
});

const predictRound = latest(async (body) => {
  try {
    const predictions = await post("api/round", body);
    if (body !== drawing) return;
    round = predictions;
    paintRings();
    tally();
  } catch { /* the request above has reported the error */ }
});

// The pad has a new drawing, or none.
function changed(blob) {
  drawing = blob;
  round = null;
  paintRings();
  if (!blob) return blank();
  update();
  predictRound(blob);
}

function update() {
  predict({ drawing, angle });
  for (const each of followers) each({ drawing, angle });
}

function blank() {
  for (const who of ["hnet", "plain"]) {
    $(`${who}-digit`).textContent = "–";
    $(`${who}-note`).textContent = "";
    document.querySelector(`.prediction.${who}`).classList.remove("differs");
    bars(who, new Array(10).fill(0), -1);
  }
  for (const order of [0, 1]) {
    sharp($(`map-${order}`));
    $(`phase-${order}`).textContent = "";
  }
  sharp($("seen"));
  $("all-round").textContent = "";
  $("spoken").textContent = "The disc is empty.";
  report($("digit-error"), null);
  for (const each of followers) each({ drawing, angle });
}

function bars(who, probabilities, best) {
  const place = $(`${who}-bars`);
  if (!place.children.length) {
    for (let digit = 0; digit < 10; digit++) {
      const bar = document.createElement("span");
      bar.append(document.createElement("i"), String(digit));
      place.append(bar);
    }
  }
  probabilities.forEach((probability, digit) => {
    place.children[digit].firstChild.style.height = `${Math.round(100 * probability)}%`;
    place.children[digit].classList.toggle("top", digit === best);
  });
}

function show(prediction) {
  const summary = [];
  for (const [who, name] of [["hnet", "Harmonic Network"], ["plain", "Plain CNN"]]) {
    const now = prediction[who], before = prediction.upright[who], same = now.digit === before.digit;
    $(`${who}-digit`).textContent = now.digit;
    const note = $(`${who}-note`), line = document.createElement("span");
    line.className = same ? "on" : "off";
    line.textContent = same ? "✓ as when upright" : `✗ upright it was ${before.digit}`;
    note.replaceChildren(line, `${(100 * now.confidence).toFixed(now.confidence > 0.995 ? 1 : 0)} % sure`);
    document.querySelector(`.prediction.${who}`).classList.toggle("differs", !same);
    bars(who, now.probabilities, now.digit);
    summary.push(`${name}: ${now.digit}`);
  }
  announce(summary.join(". "));
  paintGrey($("seen"), bytes(prediction.seen, Uint8Array), 28);
  for (const map of prediction.maps) showMap(map, prediction.degrees);
}

// Screen readers announce a prediction when it changes, and not sixty times per second.
let announced = "", timer = 0;
function announce(text) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (text !== announced) $("spoken").textContent = announced = text;
  }, 400);
}

function showMap(sent, degrees) {
  const canvas = $(`map-${sent.order}`), [map] = unpack(sent);
  const [context, side] = sharp(canvas);
  paintMap(context, map, 0, 0, side);
  paintArrows(context, map, side);
  const expected = sent.order * degrees % 360;
  const measured = sent.phase - expected > 180 ? sent.phase - 360 : sent.phase - expected < -180 ? sent.phase + 360 : sent.phase;
  $(`phase-${sent.order}`).textContent =
    `Arrows rotated by ${measured.toFixed(1).replace("-", "−").replace("−0.0", "0.0")}° (m·θ\u00a0=\u00a0${Math.round(expected)}°)`;
  canvas.setAttribute("aria-label", `Feature map of order ${sent.order}, its arrows rotated by ${Math.round(measured)} degrees`);
}

// Two rings of angles: a thick mark where a network predicts the same digit as upright, and a thin
// one where it does not, with the digit that the plain CNN predicts there.
function paintRings() {
  const [context, side] = sharp($("rings")), style = getComputedStyle(document.documentElement);
  const rings = [["hnet", 0.765], ["plain", 0.85]];
  for (const [who, radius] of rings) {
    for (let k = 0; k < 36; k++) {
      const middle = -Math.PI / 2 - k * Math.PI / 18;
      const same = !round || round[who][k] === round[who][0];
      context.beginPath();
      context.arc(side / 2, side / 2, radius * side / 2, middle - 0.066, middle + 0.066);
      context.lineWidth = side * (same ? 0.026 : 0.007);
      context.strokeStyle = style.getPropertyValue(!round ? "--line" : same ? `--${who}` : "--bad");
      context.stroke();
      if (!same && who === "plain") {
        context.font = `700 ${side * 0.03}px system-ui, sans-serif`;
        context.textAlign = "center";
        context.textBaseline = "middle";
        context.fillStyle = style.getPropertyValue("--bad");
        context.fillText(round.plain[k], side / 2 * (1 + 0.905 * Math.cos(middle)), side / 2 * (1 + 0.905 * Math.sin(middle)));
      }
    }
  }
}

function tally() {
  const count = (who) => round[who].filter((digit) => digit === round[who][0]).length;
  const total = round.angles.length, line = $("all-round");
  const bold = (text, kind) => Object.assign(document.createElement("b"), { textContent: text, className: kind });
  line.replaceChildren(
    "Over a full rotation, the same prediction at ", bold(`${count("hnet")} of ${total}`, "h"),
    " angles for the Harmonic Network and at ", bold(`${count("plain")} of ${total}`, "p"),
    " for the plain CNN: the two rings of the dial, inner and outer.",
  );
}

export function start() {
  for (let digit = 0; digit < 10; digit++) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = digit;
    button.setAttribute("aria-label", `Draw a ${digit}`);
    button.addEventListener("click", () => pad.choose(digit));
    $("samples").append(button);
  }
  pad.start(changed, stopSpin);
  handle();
  $("spin").addEventListener("click", spin);
  $("upright").addEventListener("click", () => { stopSpin(); rotateTo(0); });
  $("clear").addEventListener("click", () => { stopSpin(); pad.clear(); rotateTo(0); });
  blank();
  rotateTo(0);
  paintRings();
  pad.choose(4);
}

// After a change of size or colours.
export function repaint() {
  pad.paint(angle);
  paintRings();
  if (drawing) update();
}
