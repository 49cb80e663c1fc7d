"""The page of hnets demo in a real browser: draw, rotate, drop a file, see the result."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hnets.models import model_card
from hnets.predict import EDGE_MODEL, EDGE_MODELS
from webserver import Server

pytest.importorskip("fastapi", reason='needs fastapi: pip install "hnets[web]"')
pytest.importorskip("playwright", reason="needs playwright: pip install playwright")

from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
pytestmark = pytest.mark.skipif(
    not CHROMIUM, reason="needs a browser: apt-get install chromium, or another Chromium on PATH"
)
PATIENCE = 20_000
"""In milliseconds, and generous: other tests run beside these."""
SEVEN = [(-0.45, -0.55), (0.0, -0.57), (0.45, -0.6), (0.2, -0.1), (0.0, 0.3), (-0.1, 0.75)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        # Chromium has no sandbox of its own for root, who runs the tests in containers.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()


Opened = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, server: Server) -> Iterator[Opened]:
    """Opens the page; errors on its console and requests to elsewhere fail the test."""
    contexts, errors, urls = [], list[str](), list[str]()

    def open_page(width: int = 1100, height: int = 900, **options: Any) -> Page:
        options = {"reduced_motion": "reduce", "locale": "en", **options}
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: urls.append(request.url))
        page.goto(server.address)
        expect(page.locator("#hnet-digit")).to_have_text("4")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not errors
    assert all(url.startswith((server.address, "data:", "blob:")) for url in urls)


def middle(page: Page, selector: str) -> tuple[float, float, float]:
    box = page.locator(selector).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, box["width"] / 2


def expect_digit(page: Page, network: str, digit: str) -> None:
    expect(page.locator(f"#{network}-digit")).to_have_text(digit)


def drop(page: Page, name: str, content: list[int] | int) -> None:
    """Drop a file on the page: these bytes, or this many zeros."""
    page.evaluate(
        """([name, content]) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(content)], name, { type: "image/png" }));
            const options = { dataTransfer: data, bubbles: true, cancelable: true };
            document.getElementById("drop").dispatchEvent(new DragEvent("drop", options));
        }""",
        [name, content],
    )


def test_draw_a_digit_with_the_mouse_and_rotate_it(opened: Opened) -> None:
    page = opened()
    x, y, reach = middle(page, "#pad")
    page.mouse.move(x + SEVEN[0][0] * reach, y + SEVEN[0][1] * reach)
    page.mouse.down()
    for across, down in SEVEN:
        page.mouse.move(x + across * reach, y + down * reach, steps=4)
    page.mouse.up()
    expect_digit(page, "hnet", "7")
    expect_digit(page, "plain", "7")

    x, y, reach = middle(page, "#turntable")
    page.mouse.move(x, y - 0.92 * reach)
    page.mouse.down()
    page.mouse.move(x - 0.9 * reach, y - 0.4 * reach, steps=5)
    page.mouse.move(x - 0.9 * reach, y + 0.3 * reach, steps=5)
    page.mouse.move(x, y + 0.92 * reach, steps=5)
    page.mouse.up()
    expect(page.locator("#angle")).to_have_text("180°")
    expect_digit(page, "hnet", "7")
    expect(page.locator("#phase-1")).to_contain_text("(m·θ = 180°)")
    expect(page.locator("#phase-0")).to_contain_text("(m·θ = 0°)")
    expect(page.locator(".prediction.plain")).to_have_class("prediction plain differs")
    expect(page.locator("#plain-note")).to_contain_text("✗ upright it was 7")
    expect(page.locator("#hnet-note")).to_contain_text("✓ as when upright")
    expect(page.locator("#all-round")).to_contain_text("of 36")


def test_everything_can_be_done_from_the_keyboard(opened: Opened) -> None:
    page = opened()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the page")).to_be_focused()
    page.get_by_role("button", name="Draw a 3").focus()
    page.keyboard.press("Enter")
    expect_digit(page, "hnet", "3")
    dial = page.get_by_role("slider", name="Rotate the digit")
    dial.focus()
    for key in ("PageUp", "PageUp", "ArrowRight", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    expect(dial).to_have_attribute("aria-valuenow", "95")
    expect(page.locator("#spoken")).to_have_text("Harmonic Network: 3. Plain CNN: 0")
    page.keyboard.press("Home")
    expect(page.locator("#angle")).to_have_text("0°")
    page.get_by_role("button", name="Spin").press("Enter")
    expect(page.locator("#angle")).not_to_have_text("0°")
    page.get_by_role("button", name="Spin").press("Enter")
    expect_digit(page, "hnet", "3")
    page.get_by_role("button", name="Clear").press("Enter")
    expect_digit(page, "hnet", "–")
    expect(page.locator("#empty")).to_be_visible()


def test_touch_draws_and_rotates(opened: Opened) -> None:
    page = opened(375, 800, has_touch=True, is_mobile=True)
    page.get_by_role("button", name="Draw a 7").tap()
    expect_digit(page, "hnet", "7")
    x, y, reach = middle(page, "#turntable")
    page.touchscreen.tap(x, y + 0.9 * reach)
    expect(page.locator("#angle")).to_have_text("180°")
    expect_digit(page, "hnet", "7")


def test_a_second_finger_does_not_draw(opened: Opened) -> None:
    page = opened(375, 800, has_touch=True, is_mobile=True)
    devices = page.context.new_cdp_session(page)
    x, y, reach = middle(page, "#pad")

    def touch(kind: str, *fingers: tuple[int, float, float]) -> None:
        points = [{"id": i, "x": x + a * reach, "y": y + b * reach} for i, a, b in fingers]
        devices.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", (0, -0.4, -0.6))
    touch("touchStart", (0, -0.4, -0.6), (1, 0.4, -0.6))
    for step in range(10):
        touch("touchMove", (0, -0.4, step / 10 - 0.6), (1, 0.4, step / 10 - 0.6))
    touch("touchEnd")
    middle_is_black = """(pad) => {
        const { width, height } = pad, context = pad.getContext("2d");
        return context.getImageData(width / 2, height / 2, 1, 1).data[0] === 0
            && context.getImageData(0.3 * width, height / 2, 1, 1).data[0] === 255;
    }"""
    assert page.locator("#pad").evaluate(middle_is_black)


def test_drop_an_image_rotate_it_and_save_the_result(opened: Opened, tmp_path: Path) -> None:
    page = opened()
    image = Image.radial_gradient("L").point(lambda v: 40 if v < 110 else 220)
    image.convert("RGB").save(tmp_path / "a disc.png")
    content = (tmp_path / "a disc.png").read_bytes()
    drop(page, "a disc.png", list(content))
    expect(page.get_by_alt_text("Its edges, white on black")).to_be_visible()
    expect(page.get_by_alt_text("Its edges, coloured by orientation")).to_be_visible()
    parameters = model_card(EDGE_MODELS[EDGE_MODEL])["parameters"]
    expect(page.locator("#edges .lead")).to_contain_text(f"Network of {parameters:,} parameters")
    expect(page.locator("#disc-error")).to_have_text("0 %")
    page.get_by_label("Rotate the image", exact=True).fill("40")
    expect(page.locator("#rotation-value")).to_have_text("40°")
    expect(page.locator("#disc-error")).not_to_have_text("0 %")
    files = ("edges", "a disc.edges.png"), ("thin", "a disc.thin.png"), ("npz", "a disc.edges.npz")
    for button, name in files:  # the names that hnets edges gives
        with page.expect_download() as saving:
            page.locator(f"[data-save={button}]").click()
        assert saving.value.suggested_filename == name
        assert saving.value.path().stat().st_size > 500


def test_a_file_that_is_not_an_image_shows_an_error(opened: Opened) -> None:
    page = opened()
    notes = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"not an image"}
    page.locator("#file").set_input_files([notes])
    state = page.locator("#edges-state")
    expect(state).to_contain_text("this is not a PNG, JPEG, WebP, GIF or BMP image")
    expect(page.locator("#edges-result")).to_be_hidden()
    drop(page, "large.png", 12 * 2**20 + 1)
    expect(state).to_contain_text("larger than 12 MB")
    drop(page, "empty.png", 0)
    expect(state).to_contain_text("this file is empty; choose an image")


def test_a_folder_or_a_file_that_is_gone_is_no_server_that_does_not_respond(
    opened: Opened, tmp_path: Path
) -> None:
    page, path = opened(), tmp_path / "grey.png"
    Image.new("L", (40, 30), 128).save(path)
    page.locator("#file").set_input_files(path)
    expect(page.locator("#edges-result")).to_be_visible()
    path.unlink()
    with page.expect_download():
        page.locator("[data-save=npz]").click()
    expect(page.locator("#edges-state")).to_be_hidden()
    page.evaluate("() => { File.prototype.arrayBuffer = () => Promise.reject(new Error()); }")
    drop(page, "folder", [1])
    expect(page.locator("#edges-state")).to_contain_text("choose an image file, not a folder")


def test_a_server_that_does_not_respond_shows_an_error(opened: Opened) -> None:
    page = opened()
    page.route("**/api/digit*", lambda route: route.abort())
    page.get_by_role("button", name="Draw a 2").click()
    expect(page.locator("#digit-error")).to_contain_text("is hnets demo still running?")
    page.unroute("**/api/digit*")
    page.get_by_role("button", name="Draw a 2").click()
    expect_digit(page, "hnet", "2")
    expect(page.locator("#digit-error")).to_be_hidden()


def test_look_inside_any_layer(opened: Opened) -> None:
    page = opened()
    page.get_by_label("Layer").select_option("3")
    page.locator("#inside").scroll_into_view_if_needed()
    expect(page.locator("#fields-note")).to_have_text("16 of 14×14 pixels")
    expect(page.locator("#filters canvas")).to_have_count(2)
    expect(page.locator("#filters-note")).to_have_text("with their phase β")
    page.get_by_label("Layer").select_option("7")
    expect(page.locator("#filters-note")).to_have_text("without phases")


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_the_page_fits_its_width_and_every_control_has_a_name(opened: Opened, width: int) -> None:
    page = opened(width, 800)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, canvas, img, [role]")]
            .filter((e) => !e.closest("[aria-hidden=true]") && !e.classList.contains("brand"))
            .filter((e) => e.tagName !== "IMG" || e.getAttribute("alt") === null)
            .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim()
                || (e.labels && e.labels.length) || e.getAttribute("role") === "alert"
                || e.getAttribute("role") === "status"))
            .map((e) => e.outerHTML)"""
    )
    assert unnamed == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_the_user_chooses(opened: Opened, scheme: str) -> None:
    page = opened(color_scheme=scheme)
    bright = "(e) => getComputedStyle(e).backgroundColor.match(/[0-9]+/g)[0] > 128"
    body, button = page.locator("body"), page.locator("#theme")
    assert body.evaluate(bright) == (scheme == "light")
    button.click()
    assert body.evaluate(bright) == (scheme == "dark")
    expect(button).to_have_attribute("aria-pressed", str(scheme == "light").lower())
    page.reload()
    assert body.evaluate(bright) == (scheme == "dark"), "the choice is remembered"
    low = page.evaluate(
        """() => {
            const light = (text) => {
                const [r, g, b] = text.match(/[0-9.]+/g).map((v) => v / 255)
                    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const behind = (e) => {
                const own = getComputedStyle(e).backgroundColor, above = e.parentElement;
                return own === "rgba(0, 0, 0, 0)" && above ? behind(above) : own;
            };
            const texts = "p, h1, h2, h3, b, a, button, label, strong, small, figcaption";
            return [...document.querySelectorAll(texts)]
                .filter((e) => e.offsetParent && e.textContent.trim())
                .filter((e) => !e.matches(".empty, .skip"))
                .filter((e) => {
                    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
                    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
                })
                .map((e) => e.outerHTML.slice(0, 90));
        }"""
    )  # fmt: skip
    assert low == [], "contrast below 4.5 to 1"
