"""Record the README's picture of the studio: a person throws a ball, and it collides differently.

    python tools/record_studio.py docs/studio.gif

The page is the real one, in a Chromium without a window; only the hand is drawn in.
"""

import io
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from gswm.viz import formats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import Studio, launched, packed

SIZE = {"width": 1100, "height": 640}
SETTINGS = {"given": 10, "steps": 25, "futures": 8, "sample": True, "seed": 0}
EPISODE = 4
FPS = 10
HAND = """() => {
    const hand = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    hand.setAttribute("viewBox", "0 0 24 24");
    hand.innerHTML = '<path d="M5 2 L5 19 L9.5 15 L12.5 21.5 L15.3 20.2 L12.4 14 L18.5 14 Z" ' +
        'fill="white" stroke="black" stroke-width="1.4" stroke-linejoin="round"/>';
    Object.assign(hand.style, {position: "fixed", width: "26px", zIndex: 99});
    hand.style.pointerEvents = "none";
    document.body.append(hand);
    document.addEventListener("pointermove", (event) => {
        hand.style.left = `${event.clientX - 5}px`;
        hand.style.top = `${event.clientY - 2}px`;
    }, true);
}"""

XY = tuple[float, float]


class Recording:
    """Pictures of a page, and a hand on it."""

    def __init__(self, page: Page) -> None:
        self.page, self.frames = page, list[np.ndarray]()
        box = page.locator("#pane-imagined canvas").bounding_box()
        assert box is not None
        self.box, self.at = box, (0.9, 1.3)

    def shoot(self, times: int = 1) -> None:
        """The page as it is now, so many times."""
        self.page.wait_for_timeout(40)
        picture = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        self.frames += [np.asarray(picture)] * times

    def to(self, end: XY, steps: int) -> None:
        """The hand goes to a place of the imagined frame."""
        start = self.at
        for step in range(1, steps + 1):
            share = (1 - math.cos(math.pi * step / steps)) / 2
            self.at = tuple(a + share * (b - a) for a, b in zip(start, end, strict=True))
            x, y = ((v + 1) / 2 for v in self.at)
            self.page.mouse.move(
                self.box["x"] + x * self.box["width"], self.box["y"] + y * self.box["height"]
            )
            self.shoot()

    def step(self, times: int) -> None:
        """On, frame by frame."""
        for _ in range(times):
            self.page.keyboard.press("ArrowRight")
            self.shoot()


def objects(page: Page) -> dict[int, dict[str, Any]]:
    """The objects in the frame on display."""
    return {each["id"]: each for each in page.evaluate("() => studio.hands.objects()")}


def aim(found: dict[int, dict[str, Any]]) -> tuple[int, XY]:
    """A ball, and where to throw it: at one of its own layer, neither near nor far."""
    middle = np.mean([each["depth"] for each in found.values()])
    best, least = None, math.inf
    for one in found.values():
        for other in found.values():
            same = (one["depth"] > middle) == (other["depth"] > middle)
            way = (other["x"] - one["x"], other["y"] - one["y"])
            far = abs(math.hypot(*way) - 1)
            if one is not other and same and one["depth"] > middle and far < least:
                best, least = (one["id"], way), far
    assert best is not None
    id, way = best
    length = 0.5 / math.hypot(*way)
    return id, (way[0] * length, way[1] * length)


def record(page: Page, address: str) -> list[np.ndarray]:
    """All of it."""
    view = {"model": "two-layer", "world": "two-layer", "episode": EPISODE, "settings": SETTINGS}
    page.goto(address + packed(view))
    page.wait_for_function("() => 'done' in document.body.dataset && studio.branch(0)?.done")
    page.wait_for_timeout(2000)
    page.evaluate(HAND)
    page.keyboard.press("Home")
    film = Recording(page)
    film.to((0.7, 1.2), 1)
    film.step(14)
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    film.shoot(4)
    id, way = aim(objects(page))
    ball = objects(page)[id]
    film.to((ball["x"], ball["y"]), 7)
    page.keyboard.down("Shift")
    page.mouse.down()
    film.to((ball["x"] + way[0], ball["y"] + way[1]), 8)
    page.wait_for_timeout(1500)
    film.shoot(6)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_function("() => studio.branch(1)?.done")
    while page.evaluate("studio.store.playing"):
        page.wait_for_timeout(100)
    page.keyboard.press("Home")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    film.to((0.7, 1.2), 4)
    film.step(18)
    film.shoot(8)
    return film.frames


def main(out: Path) -> None:
    """Write the GIF."""
    studio = Studio()
    try:
        with sync_playwright() as playwright:
            browser = launched(playwright)
            page = browser.new_page(viewport=SIZE, color_scheme="dark")
            page.set_default_timeout(120_000)
            frames = record(page, studio.address)
            browser.close()
    finally:
        studio.kill()
    formats.save_video(out, np.stack(frames), FPS)
    print(f"{out}: {len(frames)} frames, {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/studio.gif"))
