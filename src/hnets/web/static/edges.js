// Drop an image: its edges, and how well edge detection commutes with rotation.
import { $, RequestError, bytes, get, latest, post } from "./api.js";

let file = null, images = null, disc = null, limit = 0, name = "";

function state(text, kind = "") {
  const place = $("edges-state");
  place.hidden = !text;
  place.textContent = text;
  place.className = `note ${kind}`;
  $("drop").classList.toggle("busy", kind === "busy");
}

function fail(error) {
  state(`That did not work: ${error.message}.`, "bad");
}

const source = (text) => `data:image/png;base64,${text}`;
const blob = (text) => new Blob([bytes(text, Uint8Array)], { type: "image/png" });

// The bytes of a file, read once: it may be gone when they are sent again.
async function bytesOf(chosen) {
  let content;
  try {
    content = await chosen.arrayBuffer();
  } catch {
    throw new RequestError("this cannot be read; choose an image file, not a folder");
  }
  if (!content.byteLength) throw new RequestError("this file is empty; choose an image");
  return content;
}

async function detect(chosen, filename) {
  state("Detecting edges …", "busy");
  try {
    if (chosen.size > limit) throw new RequestError(`this file is larger than ${limit / 2 ** 20} MB; give a smaller image`);
    const content = await bytesOf(chosen);
    images = await post("api/edges", content);
    [file, name, disc] = [content, filename.replace(/\.\w+$/, "") || "image", blob(images.disc)];
    for (const each of ["image", "edges", "orientation"]) $(`shot-${each}`).src = source(images[each]);
    $("edges-result").hidden = false;
    state("");
    rotate(Number($("rotation").value));
  } catch (error) {
    fail(error);
  }
}

const rotate = latest(async (degrees) => {
  const sent = disc;
  try {
    const rotated = await post(`api/turned?angle=${degrees}`, sent);
    if (sent !== disc) return;
    for (const each of ["image", "first", "then", "difference"]) $(`disc-${each}`).src = source(rotated[each]);
    $("disc-error").textContent = rotated.error < 0.0005 ? "0 %" : `${(100 * rotated.error).toFixed(1)} %`;
  } catch (error) {
    fail(error);
  }
});

async function save(what) {
  try {
    const content = what === "npz" ? await post("api/edges.npz", file, "blob") : blob(images[what]);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = what === "npz" ? `${name}.edges.npz` : `${name}.${what}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  } catch (error) {
    fail(error);
  }
}

export function start(about) {
  limit = about.limit;
  $("edge-size").textContent = ` of ${about.edges.parameters.toLocaleString("en")} parameters`;
  const drop = $("drop");
  $("file").addEventListener("change", (event) => {
    const [chosen] = event.target.files;
    if (chosen) detect(chosen, chosen.name);
    event.target.value = "";  // so that the same file can be chosen again
  });
  $("sample").addEventListener("click", async () => {
    state("Fetching the sample …", "busy");
    try {
      await detect(await get("api/sample", "blob"), "sample");
    } catch (error) {
      fail(error);
    }
  });
  // An image may be dropped anywhere: beside the box, the browser would leave the page to open it.
  for (const kind of ["dragover", "drop", "dragleave"]) {
    window.addEventListener(kind, (event) => {
      if (!event.dataTransfer || !event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      const [dropped] = event.dataTransfer.files;
      if (kind === "drop" && dropped) {
        drop.scrollIntoView({ block: "start" });
        detect(dropped, dropped.name);
      }
    });
  }
  $("rotation").addEventListener("input", (event) => {
    $("rotation-value").textContent = `${event.target.value}°`;
    event.target.setAttribute("aria-valuetext", `${event.target.value} degrees`);
    if (disc) rotate(Number(event.target.value));
  });
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => save(button.dataset.save));
  }
}
