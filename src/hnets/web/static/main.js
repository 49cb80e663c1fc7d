// Starts the parts of the page.
import { $, get, report } from "./api.js";
import { paintWheel } from "./paint.js";
import * as digits from "./digits.js";
import * as edges from "./edges.js";
import * as inside from "./inside.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

function repaint() {
  paintWheel($("wheel"));
  digits.repaint();
  inside.repaint();
}

function theme() {
  const button = $("theme"), root = document.documentElement;
  const shown = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const update = () => button.setAttribute("aria-pressed", String(shown() === "dark"));
  try {
    const stored = localStorage.getItem("hnets-theme");
    if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  } catch { /* without storage, the system's colours */ }
  button.addEventListener("click", () => {
    root.dataset.theme = shown() === "dark" ? "light" : "dark";
    try { localStorage.setItem("hnets-theme", root.dataset.theme); } catch { /* as above */ }
    update();
    repaint();
  });
  dark.addEventListener("change", () => { update(); repaint(); });
  update();
}

const DATA_SETS = { mnist: "upright digits (MNIST)", "rotmnist-r": "digits at all angles (rotated MNIST)" };

function describe(place, card) {
  const upright = card.metrics.test_error, rotated = card.metrics.test_error_turned;
  const errors = rotated === undefined
    ? `test error ${upright.toFixed(1)}\u00a0%`
    : `test error ${upright.toFixed(1)}\u00a0% on upright digits, ${rotated.toFixed(0)}\u00a0% on rotated ones`;
  place.textContent =
    `${card.parameters.toLocaleString("en")} parameters, trained on ${DATA_SETS[card.data] || card.data}; ${errors}.`;
}

async function begin() {
  theme();
  paintWheel($("wheel"));
  digits.start();
  try {
    const about = await get("api/about");
    $("version").textContent = about.version;
    describe($("hnet-trained"), about.hnet);
    describe($("plain-trained"), about.plain);
    edges.start(about);
    inside.start(about);
  } catch (error) {
    report($("digit-error"), error);
  }
  let timer = 0;
  window.addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(repaint, 120);
  });
}

begin();
