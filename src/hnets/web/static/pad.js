// The disc to draw on: strokes, upright, shown at the angle of the dial.
import { $ } from "./api.js";
import { sharp } from "./paint.js";
import { SAMPLES } from "./samples.js";

const STROKE = 0.092, SENT = 224;
const still = matchMedia("(prefers-reduced-motion: reduce)");

let strokes = [], sample = false, shown = 0, version = 0, pending = 0, notify = () => {};

function trace(context, points, side) {
  const at = (p) => [p[0] * side, p[1] * side];
  context.beginPath();
  context.moveTo(...at(points[0]));
  if (points.length === 1) context.lineTo(...at(points[0]));
  for (let i = 1; i < points.length; i++) {
    const [a, b] = [points[i], points[i + 1]];
    if (!b) context.lineTo(...at(a));
    else context.quadraticCurveTo(...at(a), ...at([(a[0] + b[0]) / 2, (a[1] + b[1]) / 2]));
  }
  context.stroke();
}

function ink(context, side) {
  context.strokeStyle = "#fff";
  context.lineWidth = STROKE * side;
  context.lineCap = context.lineJoin = "round";
  for (const points of strokes) trace(context, points, side);
}

export function paint(angle = shown) {
  shown = angle;
  const [context, side] = sharp($("pad"));
  context.fillStyle = "#000";
  context.beginPath();
  context.arc(side / 2, side / 2, side / 2, 0, 7);
  context.fill();
  context.clip();
  context.translate(side / 2, side / 2);
  context.rotate(-shown * Math.PI / 180);
  context.translate(-side / 2, -side / 2);
  ink(context, side);
  $("empty").hidden = strokes.length > 0;
}

async function changed() {
  const mine = ++version;
  paint();
  if (!strokes.length) return notify(null);
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SENT;
  const context = canvas.getContext("2d");
  context.fillStyle = "#000";
  context.fillRect(0, 0, SENT, SENT);
  ink(context, SENT);
  const blob = await new Promise((done) => canvas.toBlob(done));
  if (mine === version) notify(blob);
}

// Calls `onChange` with the drawing whenever it changes, and `onBegin` when a stroke begins.
export function start(onChange, onBegin) {
  notify = onChange;
  const pad = $("pad");
  let points = null, finger = 0;  // that draws, or the mouse: others are ignored until it ends
  const place = (event) => {
    const box = pad.getBoundingClientRect(), radians = shown * Math.PI / 180;
    const x = (event.clientX - box.left) / box.width - 0.5;
    const y = (event.clientY - box.top) / box.height - 0.5;
    // In the upright drawing: the disc may be rotated while it is drawn on.
    const [cos, sin] = [Math.cos(radians), Math.sin(radians)];
    return [0.5 + x * cos - y * sin, 0.5 + x * sin + y * cos];
  };
  pad.addEventListener("pointerdown", (event) => {
    if (event.button || (points && event.pointerId !== finger)) return;
    event.preventDefault();
    finger = event.pointerId;
    onBegin();
    cancelAnimationFrame(pending);
    pad.setPointerCapture(event.pointerId);
    if (sample) strokes = [];  // drawing on a sample starts a new digit
    sample = false;
    points = [place(event)];
    strokes.push(points);
    paint();
  });
  pad.addEventListener("pointermove", (event) => {
    if (!points || event.pointerId !== finger) return;
    const last = points[points.length - 1], next = place(event);
    if (Math.hypot(next[0] - last[0], next[1] - last[1]) < 0.012) return;
    points.push(next);
    paint();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    pad.addEventListener(end, (event) => {
      if (event.pointerId !== finger) return;
      if (points) changed();
      points = null;
    });
  }
}

// Draws a sample stroke by stroke, or at once if the user prefers reduced motion.
export function choose(digit) {
  cancelAnimationFrame(pending);
  sample = true;
  const whole = SAMPLES[digit], total = whole.reduce((sum, s) => sum + s.length, 0);
  const finish = () => {
    strokes = whole.map((s) => s.map((p) => [...p]));
    changed();
  };
  if (still.matches) return finish();
  const started = performance.now();
  const frame = (now) => {
    let left = Math.ceil(total * (now - started) / 420);
    if (left >= total) return finish();
    strokes = [];
    for (const stroke of whole) {
      if (left > 0) strokes.push(stroke.slice(0, left));
      left -= stroke.length;
    }
    paint();
    pending = requestAnimationFrame(frame);
  };
  pending = requestAnimationFrame(frame);
}

export function clear() {
  cancelAnimationFrame(pending);
  strokes = [];
  changed();
}
