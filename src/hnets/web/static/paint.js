// Complex numbers as colours and arrows, in the colours of hnets.predict.rendering.phase_colours:
// hues on a circle of OKLab, where none looks brighter than another.
import { bytes } from "./api.js";

const HUES = 256;
const LINEAR = new Float32Array(HUES * 3);
for (let i = 0; i < HUES; i++) {
  const hue = 2 * Math.PI * i / HUES + 0.45, a = 0.155 * Math.cos(hue), b = 0.155 * Math.sin(hue);
  const l = (0.8 + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (0.8 - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (0.8 - 0.0894841775 * a - 1.2914855480 * b) ** 3;
  LINEAR[3 * i] = 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s;
  LINEAR[3 * i + 1] = -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s;
  LINEAR[3 * i + 2] = -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s;
}
const LIGHT = Uint8ClampedArray.from({ length: 4096 }, (_, i) => {
  const x = i / 4095;
  return 255 * (x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055);
});

function colour(re, im) {
  const size = Math.min(1, Math.hypot(re, im)) ** 2.4;  // 0.8 for the eye, cubed for OKLab
  const fraction = Math.atan2(im, re) / (2 * Math.PI);
  const hue = 3 * ((Math.round(fraction * HUES) + HUES) % HUES);
  return [0, 1, 2].map((c) => LIGHT[Math.round(4095 * Math.min(1, Math.max(0, size * LINEAR[hue + c])))]);
}

// The CSS colour of a phase.
export function css(degrees) {
  const angle = degrees * Math.PI / 180;
  return `rgb(${colour(Math.cos(angle), Math.sin(angle)).join(" ")})`;
}

// A canvas with as many pixels as the screen has for it.
export function sharp(canvas, height = null) {
  const scale = Math.min(3, window.devicePixelRatio || 1);
  const box = canvas.getBoundingClientRect();
  const wide = Math.max(1, Math.round(box.width * scale));
  const high = height === null ? wide : Math.round(height * scale);
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, wide, high);
  return [context, wide];
}

// The server's maps: an array of { re, im }, with 1 as full brightness.
export function unpack(sent) {
  const re = bytes(sent.re, Int8Array), im = bytes(sent.im, Int8Array), area = sent.width * sent.height;
  return Array.from({ length: sent.count }, (_, k) => ({
    width: sent.width, height: sent.height,
    re: Float32Array.from(re.subarray(k * area, (k + 1) * area), (v) => v / 127),
    im: Float32Array.from(im.subarray(k * area, (k + 1) * area), (v) => v / 127),
  }));
}

const small = document.createElement("canvas");

// Draws rows of colours, `width` of them each, as a square.
function enlarge(context, colours, width, x, y, side, smooth) {
  small.width = width;
  small.height = colours.length / width;
  const inner = small.getContext("2d"), pixels = inner.createImageData(width, small.height);
  colours.forEach((colour, i) => pixels.data.set([...colour, 255], 4 * i));
  inner.putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = smooth;
  context.imageSmoothingQuality = "high";
  context.drawImage(small, x, y, side, side);
}

export function paintMap(context, map, x, y, side, smooth = true) {
  const colours = Array.from(map.re, (re, i) => colour(re, map.im[i]));
  enlarge(context, colours, map.width, x, y, side, smooth);
}

// Values from 0 to 255, as squares of grey.
export function paintGrey(canvas, values, count) {
  const [context, side] = sharp(canvas);
  enlarge(context, Array.from(values, (v) => [v, v, v]), count, 0, 0, side, false);
}

function arrow(context, x, y, angle, length, width) {
  const dx = Math.cos(angle) * length / 2, dy = -Math.sin(angle) * length / 2;
  const head = Math.min(length * 0.45, width * 4.5);
  context.beginPath();
  context.moveTo(x - dx, y - dy);
  context.lineTo(x + dx, y + dy);
  for (const side of [2.55, -2.55]) {
    context.moveTo(x + dx, y + dy);
    context.lineTo(x + dx + head * Math.cos(angle + side), y + dy - head * Math.sin(angle + side));
  }
  context.lineCap = context.lineJoin = "round";
  for (const [style, wide] of [["rgb(0 0 0 / 75%)", width * 2.6], ["#fff", width]]) {
    context.strokeStyle = style;
    context.lineWidth = wide;
    context.stroke();
  }
}

// Arrows on a grid of at most fourteen by fourteen, each the mean of the pixels it stands for.
export function paintArrows(context, map, side) {
  const step = Math.max(1, Math.floor(map.width / 14)), cell = side * step / map.width;
  for (let row = 0; row + step <= map.height; row += step) {
    for (let column = 0; column + step <= map.width; column += step) {
      let re = 0, im = 0;
      for (let i = 0; i < step; i++) {
        for (let j = 0; j < step; j++) {
          re += map.re[(row + i) * map.width + column + j];
          im += map.im[(row + i) * map.width + column + j];
        }
      }
      const size = Math.min(1, Math.hypot(re, im) / step ** 2);
      if (size < 0.14) continue;
      const x = (column / step + 0.5) * cell, y = (row / step + 0.5) * cell;
      arrow(context, x, y, Math.atan2(im, re), cell * (0.45 + 0.5 * size), side / 260);
    }
  }
}

export function paintWheel(canvas) {
  const [context, side] = sharp(canvas), pixels = context.createImageData(side, side);
  for (let row = 0; row < side; row++) {
    for (let column = 0; column < side; column++) {
      const x = (2 * column + 1) / side - 1, y = 1 - (2 * row + 1) / side, r = Math.hypot(x, y);
      const [red, green, blue] = colour(x, y);
      pixels.data.set([red, green, blue, 255 * Math.min(1, Math.max(0, (1 - r) * side / 2))], 4 * (row * side + column));
    }
  }
  context.putImageData(pixels, 0, 0);
}
