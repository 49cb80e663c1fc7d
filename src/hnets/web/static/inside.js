// Look inside: all maps of a stream, the filters that lead to it, and a histogram of phases.
import { $, get, latest, post, report } from "./api.js";
import { css, paintMap, sharp, unpack } from "./paint.js";
import { current, follow } from "./digits.js";

const layer = () => Number($("layer").value);
const order = () => Number(document.querySelector("[name=order]:checked").value);

const updateFields = latest(async ({ drawing, angle }) => {
  const place = $("fields");
  if (!drawing) {
    sharp(place, 40);
    $("fields-note").textContent = "draw a digit first";
    return;
  }
  try {
    const sent = await post(`api/fields?angle=${angle.toFixed(1)}&layer=${layer()}&order=${order()}`, drawing);
    const maps = unpack(sent);
    const across = maps.length > 16 ? 6 : 4, rows = Math.ceil(maps.length / across);
    const [context, wide] = sharp(place, place.getBoundingClientRect().width * rows / across);
    const cell = wide / across, gap = cell * 0.04;
    maps.forEach((map, k) => {
      paintMap(context, map, (k % across) * cell + gap, Math.floor(k / across) * cell + gap, cell - 2 * gap);
    });
    $("fields-note").textContent = `${maps.length} of ${sent.height}×${sent.width} pixels`;
    report($("inside-error"), null);
  } catch (error) {
    report($("inside-error"), error);
  }
});

const updateFilters = latest(async () => {
  try {
    const { kinds, histogram } = await get(`api/filters?layer=${layer()}&order=${order()}`);
    showFilters(kinds);
    showHistogram(histogram);
    report($("inside-error"), null);
  } catch (error) {
    report($("inside-error"), error);
  }
});

function showFilters(kinds) {
  const place = $("filters");
  place.replaceChildren();
  for (const kind of kinds) {
    const box = document.createElement("div"), line = document.createElement("p");
    const canvas = document.createElement("canvas");
    line.textContent = `Order ${kind.order}, from order ${kind.from}: the strongest ${kind.count} of ${kind.of}`;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Filters of order ${kind.order}`);
    box.append(line, canvas);
    place.append(box);
    const across = 8, rows = Math.ceil(kind.count / across);
    const [context, wide] = sharp(canvas, canvas.getBoundingClientRect().width * rows / across);
    const cell = wide / across, size = cell * 0.84;
    unpack(kind).forEach((filter, k) => {
      const x = (k % across) * cell, y = Math.floor(k / across) * cell;
      paintMap(context, filter, x, y, size, false);
      if (kind.phases) circle(context, x + size, y + size, cell * 0.15, kind.phases[k]);
    });
  }
  $("filters-note").textContent = kinds.some((k) => k.phases) ? "with their phase β" : "without phases";
}

// The phase of a filter as an oriented circle, as the paper draws it.
function circle(context, x, y, radius, degrees) {
  const radians = degrees * Math.PI / 180;
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fillStyle = css(degrees);
  context.fill();
  context.lineWidth = radius * 0.28;
  context.strokeStyle = "#111";
  context.stroke();
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x + radius * Math.cos(radians), y - radius * Math.sin(radians));
  context.stroke();
}

function showHistogram(counts) {
  const canvas = $("histogram"), [context, side] = sharp(canvas), middle = side / 2;
  const style = getComputedStyle(document.documentElement), largest = Math.max(1, ...counts);
  const total = counts.reduce((a, b) => a + b, 0), each = 2 * Math.PI / counts.length;
  context.font = `${side * 0.05}px system-ui, sans-serif`;
  context.fillStyle = context.strokeStyle = style.getPropertyValue("--muted");
  context.textAlign = "center";
  context.textBaseline = "middle";
  if (!total) {
    context.fillText("this layer has no phases", middle, middle);
    return;
  }
  for (let quarter = 0; quarter < 4; quarter++) {
    const at = quarter * Math.PI / 2;
    context.fillText(`${90 * quarter}°`, middle + 0.87 * middle * Math.cos(at), middle - 0.87 * middle * Math.sin(at));
  }
  counts.forEach((count, k) => {
    // Areas, not radii, are proportional to counts.
    const radius = 0.74 * middle * Math.sqrt(count / largest);
    context.beginPath();
    context.moveTo(middle, middle);
    context.arc(middle, middle, radius, -(k + 1) * each, -k * each);
    context.closePath();
    context.fillStyle = css((k + 0.5) * 360 / counts.length);
    context.fill();
  });
  context.beginPath();
  context.arc(middle, middle, 0.74 * middle, 0, 7);
  context.stroke();
  canvas.setAttribute("aria-label", `Histogram of ${total} phases in ${counts.length} directions, from ${Math.min(...counts)} to ${largest} each`);
}

// Maps are requested only while they are visible: the turntable above should not wait for them.
let visible = false;

export function start(about) {
  for (const each of about.layers) {
    const text = `${each.layer}: ${each.streams}, ${each.filters.toLocaleString("en")} filters`;
    $("layer").append(new Option(text, each.layer, each.layer === 2, each.layer === 2));
  }
  $("choose").addEventListener("change", () => { updateFields(current()); updateFilters(); });
  $("choose").addEventListener("submit", (event) => event.preventDefault());
  follow((now) => { if (visible) updateFields(now); });
  new IntersectionObserver(([entry]) => {
    visible = entry.isIntersecting;
    if (visible) repaint();
  }).observe($("inside"));
}

export function repaint() {
  if (!visible) return;
  updateFields(current());
  updateFilters();
}
