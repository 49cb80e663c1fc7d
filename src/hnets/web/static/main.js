// Puts the parts of the page together.
import { get } from "./api.js";
import { paintWheel } from "./paint.js";
import * as digits from "./digits.js";
import * as edges from "./edges.js";
import * as inside from "./inside.js";

const $ = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");

function repaint() {
  paintWheel($("wheel"));
  digits.repaint();
  inside.repaint();
}

function theme() {
  const button = $("theme"), root = document.documentElement;
  const shown = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const say = () => button.setAttribute("aria-pressed", String(shown() === "dark"));
  try {
    const kept = localStorage.getItem("hnets-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch { /* a browser that keeps nothing starts with the system's colours */ }
  button.addEventListener("click", () => {
    root.dataset.theme = shown() === "dark" ? "light" : "dark";
    try { localStorage.setItem("hnets-theme", root.dataset.theme); } catch { /* as above */ }
    say();
    repaint();
  });
  dark.addEventListener("change", () => { say(); repaint(); });
  say();
}

const DATA = { mnist: "upright digits (MNIST)", "rotmnist-r": "digits at all angles (rotated MNIST)" };

function trained(place, card) {
  const upright = card.metrics.test_error, turned = card.metrics.test_error_turned;
  const errors = turned === undefined
    ? `${upright.toFixed(1)}\u00a0% of such test digits wrong`
    : `${upright.toFixed(1)}\u00a0% of upright test digits wrong, ${turned.toFixed(0)}\u00a0% of turned ones`;
  place.textContent =
    `${card.parameters.toLocaleString("en")} parameters, learned from ${DATA[card.data] || card.data}; ${errors}.`;
}

async function begin() {
  theme();
  paintWheel($("wheel"));
  digits.start();
  try {
    const about = await get("api/about");
    $("version").textContent = about.version;
    trained($("hnet-trained"), about.hnet);
    trained($("plain-trained"), about.plain);
    edges.start(about);
    inside.start(about);
  } catch (error) {
    $("digit-error").hidden = false;
    $("digit-error").textContent = `That did not work: ${error.message}.`;
  }
  let timer = 0;
  window.addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(repaint, 120);
  });
}

begin();
