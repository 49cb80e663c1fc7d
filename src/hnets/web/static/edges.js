// Drop a picture: its boundaries, and whether turning and finding them may change places.
import { Trouble, latest, post } from "./api.js";

const $ = (id) => document.getElementById(id);
const shots = ["picture", "edges", "orientation"];

let file = null, found = null, disc = null, limit = 12 * 2 ** 20, name = "picture";

function state(text, kind = "") {
  const place = $("edges-state");
  place.hidden = !text;
  place.textContent = text;
  place.className = `note ${kind}`;
  $("drop").classList.toggle("busy", kind === "busy");
}

const source = (text) => `data:image/png;base64,${text}`;

function blob(text) {
  return new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], { type: "image/png" });
}

async function take(chosen, called) {
  if (!chosen) return;
  state("Looking for boundaries …", "busy");
  try {
    if (chosen.size > limit) throw new Trouble(`this file is larger than ${limit / 2 ** 20} MB; give a smaller picture`);
    const answer = await post("api/edges", chosen);
    [file, found, name, disc] = [chosen, answer, called.replace(/\.\w+$/, "") || "picture", blob(answer.disc)];
    for (const each of shots) $(`shot-${each}`).src = source(found[each]);
    $("edges-result").hidden = false;
    state("");
    $("edges-state").hidden = true;
    tilt(Number($("tilt").value));
  } catch (error) {
    state(`That did not work: ${error.message}.`, "bad");
  }
}

const tilt = latest(async (degrees) => {
  const asked = disc;
  try {
    const turned = await post(`api/turned?angle=${degrees}`, asked);
    if (asked !== disc) return;
    for (const each of ["picture", "first", "then", "apart"]) $(`disc-${each}`).src = source(turned[each]);
    $("disc-error").textContent = turned.error < 0.0005 ? "0 %" : `${(100 * turned.error).toFixed(1)} %`;
  } catch (error) {
    state(`That did not work: ${error.message}.`, "bad");
  }
});

async function save(what) {
  try {
    const content = what === "npz" ? await post("api/edges.npz", file, "blob") : blob(found[what]);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = what === "npz" ? `${name}.edges.npz` : `${name}.${what}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  } catch (error) {
    state(`That did not work: ${error.message}.`, "bad");
  }
}

export function start(about) {
  limit = about.limit;
  const drop = $("drop");
  $("file").addEventListener("change", (event) => {
    const [chosen] = event.target.files;
    if (chosen) take(chosen, chosen.name);
    event.target.value = "";  // so that the same file can be chosen again
  });
  $("sample").addEventListener("click", async () => {
    state("Fetching the sample …", "busy");
    try {
      const response = await fetch("api/sample");
      await take(await response.blob(), "sample");
    } catch (error) {
      state("That did not work: the server does not answer; is hnets demo still running?", "bad");
    }
  });
  // A picture may be dropped anywhere: missing the box should not make the browser leave the page.
  for (const kind of ["dragover", "drop", "dragleave"]) {
    window.addEventListener(kind, (event) => {
      if (!event.dataTransfer || !event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      const [dropped] = event.dataTransfer.files;
      if (kind === "drop" && dropped) {
        drop.scrollIntoView({ block: "start" });
        take(dropped, dropped.name);
      }
    });
  }
  $("tilt").addEventListener("input", (event) => {
    $("tilt-value").textContent = `${event.target.value}°`;
    event.target.setAttribute("aria-valuetext", `${event.target.value} degrees`);
    if (disc) tilt(Number(event.target.value));
  });
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => save(button.dataset.save));
  }
}
