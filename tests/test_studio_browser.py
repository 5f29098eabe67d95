"""The studio in a real browser, with a trained model, used as a person would."""

import io
import json
import math
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, WebSocketRoute, expect, sync_playwright

from gswm.studio.protocol import decode, encode
from gswm.weights.finding import shipped

pytestmark = pytest.mark.browser

SECONDS = 60_000
VIEW = {"model": "two-layer", "world": "two-layer", "episode": 1, "frame": 5}
SMALL = {"given": 6, "steps": 10, "futures": 2, "sample": True, "seed": 0}


@pytest.fixture(scope="module")
def studio() -> Iterator[browser.Studio]:
    made = browser.Studio()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if browser.chromium() is None:
        pytest.skip(browser.MISSING)
    with sync_playwright() as playwright:
        made = browser.launched(playwright)
        yield made
        made.close()


@pytest.fixture
def tab(chromium: Browser, studio: browser.Studio) -> Iterator[Callable[..., Page]]:
    """Open a tab; any error in it fails the test."""
    wrong: list[str] = []
    context = chromium.new_context(viewport={"width": 1280, "height": 840}, accept_downloads=True)
    context.set_default_timeout(SECONDS)

    def opened(address: str = studio.address, **settings: Any) -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: note(said.text, wrong) if said.type == "error" else None)
        page.on("request", lambda sent: outside(sent.url, address, wrong))
        view = VIEW | {"settings": SMALL | settings}
        page.goto(address + browser.packed(view))
        return done(page, 0)

    yield opened
    context.close()
    assert wrong == []


def note(said: str, wrong: list[str]) -> None:
    """Note an error, but for the answer to a video that cannot be opened."""
    if "status of 400" not in said:
        wrong.append(said)


def outside(url: str, address: str, wrong: list[str]) -> None:
    """Note a request to another host."""
    home = address.partition("?")[0]
    if not url.startswith((home, home.replace("http", "ws"), "blob:", "data:")):
        wrong.append(f"asked for {url}")


def done(page: Page, branch: int) -> Page:
    """Wait until a branch is imagined; others may be imagined before or after it."""
    there = "(b) => 'done' in document.body.dataset && studio.branch(b)?.done"
    page.wait_for_function(there, arg=branch, timeout=SECONDS)
    return page


def objects(page: Page, branch: int, future: int, frame: int) -> dict[int, tuple[float, float]]:
    """The positions of the objects in a frame."""
    script = """([b, f, t]) => studio.frameAt(studio.branch(b), f, t).objects
        .filter((o) => o.there).map((o) => [o.id, o.x, o.y])"""
    return {id: (x, y) for id, x, y in page.evaluate(script, [branch, future, frame])}


def until(page: Page, script: str) -> None:
    """Poll a condition; the page's policy forbids Playwright's own way of waiting."""
    for _ in range(SECONDS // 50):
        if page.evaluate(script):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never: {script}")


def state(page: Page, name: str) -> Any:
    return page.evaluate(f"studio.store.{name}")


def drag(page: Page, start: tuple[float, float], end: tuple[float, float], rest: int = 0) -> None:
    """Press at one place of the imagined frame, and let go at another, in motion or at rest."""
    box = page.locator("#pane-imagined canvas").bounding_box()
    assert box is not None
    steps = 6
    for step in range(steps + 1):
        at = [a + (b - a) * step / steps for a, b in zip(start, end, strict=True)]
        x, y = box["x"] + (at[0] + 1) / 2 * box["width"], box["y"] + (at[1] + 1) / 2 * box["height"]
        page.mouse.move(x, y)
        if step == 0:
            page.mouse.down()
        page.wait_for_timeout(12)
    page.wait_for_timeout(rest)
    page.mouse.up()


def picture(canvas: Locator) -> bytes:
    return Image.open(io.BytesIO(canvas.screenshot())).convert("RGB").tobytes()


def comes(canvas: Locator, wanted: Callable[[bytes], bool], seconds: int = 10) -> bool:
    """Whether a picture that is wanted is drawn; a busy machine takes its time."""
    deadline = time.monotonic() + seconds
    while not (found := wanted(picture(canvas))) and time.monotonic() < deadline:
        canvas.page.wait_for_timeout(50)
    return found


def test_a_person_plays_scrubs_and_toggles(tab: Callable[..., Page]) -> None:
    page = tab()
    expect(page.locator("#clock")).to_have_text("5 / 15")
    canvas = page.locator("#pane-imagined canvas")
    for toggle in ("boxes", "trails", "background", "presence", "depth", "regions", "masks"):
        before = picture(canvas)
        page.click(f"#toggle-{toggle}")
        until(page, "!!studio.branch().masks[0]?.[15] || !studio.store.toggles.masks")
        assert comes(canvas, lambda now, before=before: now != before), toggle
        page.click(f"#toggle-{toggle}")
        assert comes(canvas, lambda now, before=before: now == before), toggle
    page.keyboard.press("Home")
    expect(page.locator("#clock")).to_have_text("0 / 15")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#clock")).to_have_text("1 / 15")
    bar = page.locator("#timeline").bounding_box()
    assert bar is not None
    page.mouse.click(bar["x"] + 0.72 * bar["width"], bar["y"] + bar["height"] / 2)
    expect(page.locator("#clock")).to_have_text("11 / 15")
    expect(page.locator("#pane-imagined .what")).to_have_text("imagined, 6 on")
    page.keyboard.press(" ")
    expect(page.locator("#clock")).to_have_text("15 / 15")
    expect(page.locator("#play")).to_have_text("▶")


def test_a_dragged_object_has_another_future_and_the_past_stays(tab: Callable[..., Page]) -> None:
    page = tab(sample=False)
    before = objects(page, 0, 0, 5)
    drag(page, before[0], (before[0][0] + 0.3, before[0][1] + 0.2), rest=300)
    done(page, 1)
    after = objects(page, 1, 0, 5)
    assert state(page, "branches[1].edit.change.kind") == "move"
    assert math.dist(after[0], (before[0][0] + 0.3, before[0][1] + 0.2)) < 0.03
    for other in before.keys() - {0}:
        assert after[other] == before[other]
    for frame in range(5):
        assert objects(page, 1, 0, frame) == objects(page, 0, 0, frame)
    assert math.dist(objects(page, 1, 0, 8)[0], objects(page, 0, 0, 8)[0]) > 0.1
    expect(page.locator("#history li.on")).to_contain_text("move 0")
    expect(page.locator('[data-beside="before"]')).to_have_class("on")


def test_a_thrown_object_flies_and_edits_are_undone(tab: Callable[..., Page]) -> None:
    page = tab(sample=False)
    start = objects(page, 0, 0, 5)[0]
    page.keyboard.down("Shift")
    drag(page, start, (start[0] - 0.4, start[1] + 0.4))
    page.keyboard.up("Shift")
    done(page, 1)
    assert state(page, "branches[1].edit.change.kind") == "throw"
    thrown, usual = objects(page, 1, 0, 7)[0], objects(page, 0, 0, 7)[0]
    assert thrown[0] - start[0] < -0.1
    assert thrown[1] - start[1] > 0.1
    assert math.dist(thrown, usual) > 0.1
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.wait_for_timeout(50)
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("1")
    page.keyboard.press("Delete")
    done(page, 2)
    assert 1 not in objects(page, 2, 0, 9)
    page.keyboard.press("2")
    page.keyboard.press("d")
    done(page, 3)
    assert len(objects(page, 3, 0, 9)) == len(objects(page, 2, 0, 9)) + 1
    page.keyboard.press("z")
    assert state(page, "current") == 2
    page.click("#undo")
    assert state(page, "current") == 1
    page.keyboard.press("Shift+Z")
    assert state(page, "current") == 2
    page.locator("#history li").first.click()
    assert state(page, "current") == 0


def test_a_flick_throws(tab: Callable[..., Page]) -> None:
    page = tab(futures=1)
    start = objects(page, 0, 0, 5)[0]
    box = page.locator("#pane-imagined canvas").bounding_box()
    assert box is not None
    hand = page.context.new_cdp_session(page)
    now = time.time()
    for step in range(8):
        event = {"type": "mousePressed" if step == 0 else "mouseMoved", "button": "left"}
        if step == 7:
            event["type"] = "mouseReleased"
        x, y = start[0] - 0.04 * min(step, 6), start[1] + 0.04 * min(step, 6)
        event |= {"x": box["x"] + (x + 1) / 2 * box["width"], "clickCount": 1, "buttons": 1}
        event |= {"y": box["y"] + (y + 1) / 2 * box["height"], "timestamp": now + 0.016 * step}
        hand.send("Input.dispatchMouseEvent", event)
    done(page, 1)
    change = state(page, "branches[1].edit.change")
    assert change["kind"] == "throw"
    assert change["velocity"] == pytest.approx([-0.04 / 0.016 / 30, 0.04 / 0.016 / 30], rel=0.3)


def test_futures_differ_when_sampled_and_agree_when_mean(tab: Callable[..., Page]) -> None:
    page = tab(futures=4)
    expect(page.locator("#tiles canvas")).to_have_count(4)
    samples = [objects(page, 0, future, 15) for future in range(4)]
    assert all(samples[0] != other for other in samples[1:])
    page.locator("#tiles canvas").nth(2).click()
    assert state(page, "future") == 2
    page.evaluate("delete document.body.dataset.done")
    page.click('[data-sample="false"]')
    done(page, 0)
    expect(page.locator("#tiles canvas")).to_have_count(1)
    mean = objects(page, 0, 0, 15)
    page.evaluate("delete document.body.dataset.done")
    page.click('[data-sample="true"]')
    done(page, 0)
    assert objects(page, 0, 0, 15) == samples[0] != mean


def test_a_video_of_ones_own_is_opened_and_a_broken_one_is_told(
    tab: Callable[..., Page], tmp_path: Path
) -> None:
    page = tab()
    frames = []
    for i in range(8):
        image = Image.new("RGB", (64, 64))
        image.paste((255, 0, 0), (5 + 4 * i, 20, 20 + 4 * i, 35))
        frames.append(image)
    good, bad = tmp_path / "good.gif", tmp_path / "bad.mp4"
    frames[0].save(good, save_all=True, append_images=frames[1:])
    bad.write_bytes(b"this is no video")
    page.set_input_files("#file", bad)
    expect(page.locator("#toast.wrong")).to_contain_text("video format is not supported")
    page.evaluate("delete document.body.dataset.done")
    page.set_input_files("#file", good)
    until(page, "studio.store.opened.world.startsWith('upload-')")
    done(page, 0)
    assert state(page, "truth.pixels.shape[0]") == 8
    until(page, "!studio.store.playing && studio.store.frame === 15")  # it plays to its end
    expect(page.locator("#world option:checked")).to_have_text("your video")
    video = state(page, "opened.world")
    page.select_option("#model", "single-ball")
    until(page, "studio.store.opened.model === 'single-ball'")
    done(page, 0)
    assert state(page, "opened.world") == video
    assert state(page, "truth.pixels.shape[0]") == 8
    expect(page.locator("#toast.wrong")).to_contain_text("the model does not fit this video")
    page.select_option("#world", "single-ball")
    until(page, "studio.store.opened.world === 'single-ball'")
    expect(page.locator("#toast")).to_be_hidden(timeout=2_000)  # it was about the other video


class Held:
    """Messages to a page that wait on their way; those of some kinds pass."""

    def __init__(self, page: Page, *passing: str) -> None:
        self.passing, self.waiting = set(passing), list[bytes]()
        self.page: WebSocketRoute | None = None
        page.route_web_socket("**/session?*", self.connect)

    def connect(self, page: WebSocketRoute) -> None:
        self.page = page
        page.connect_to_server().on_message(self.hear)

    def hear(self, message: str | bytes) -> None:
        assert isinstance(message, bytes)
        if decode(message)[0]["type"] == "opened":
            self.waiting.clear()  # as if the server had interrupted the work for another video
        self.waiting.append(message)
        self.let()

    def let(self, *more: str) -> None:
        """Let messages of more kinds pass, in order up to the first one that may not."""
        self.passing.update(more)
        while self.waiting and decode(self.waiting[0])[0]["type"] in self.passing:
            assert self.page is not None
            self.page.send(self.waiting.pop(0))


def use_everything(page: Page) -> None:
    """Press keys of edits and views, drag across the picture, and click on the history."""
    edits = ("0", "1", "d", "Delete", "Alt+ArrowUp", "Shift+ArrowLeft", "t", "k", "z", "Shift+Z")
    views = ("ArrowRight", "End", "Home", ".", ",", "c", "m", "m", "Escape", " ", " ")
    for key in (*edits, *views):
        page.keyboard.press(key)
    drag(page, (0.0, 0.0), (0.3, 0.2))
    page.locator("#history li").first.click()
    page.wait_for_timeout(50)


def test_a_video_is_shown_at_once_and_its_objects_as_they_are_found(
    chromium: Browser, studio: browser.Studio
) -> None:
    wrong: list[str] = []
    page = chromium.new_page()
    page.set_default_timeout(SECONDS)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    held = Held(page, "hello", "opened")
    edit = {"branch": 0, "frame": 5, "change": {"kind": "remove", "id": 0}}
    view = VIEW | {"settings": SMALL, "edits": [edit], "current": 1}
    page.goto(studio.address + browser.packed(view))
    what = page.locator("#pane-imagined .what")
    expect(what).to_have_text("finding objects…")
    for pane in ("imagined", "truth"):
        assert len(set(picture(page.locator(f"#pane-{pane} canvas")))) > 10
    expect(page.locator("#objects li")).to_have_count(0)
    use_everything(page)
    assert len(page.evaluate("studio.store.branches")) == 1
    page.keyboard.press("Home")
    held.let("seen")
    expect(what).to_have_text("given")
    expect(page.locator("#objects li").first).to_be_visible()
    page.keyboard.press("1")
    page.keyboard.press("Delete")  # the server answers when all is inferred
    held.let("truth", "branch", "futures", "done", "masks")
    done(page, 2)
    assert state(page, "branches.map((each) => each.edit?.change.kind)") == [None, *["remove"] * 2]
    assert state(page, "wanted") is None
    page.close()
    assert wrong == []


def test_settings_may_change_before_the_edits_are_there(
    chromium: Browser, studio: browser.Studio
) -> None:
    page = chromium.new_page()
    page.set_default_timeout(SECONDS)
    held = Held(page, "hello", "opened")
    edit = {"branch": 0, "frame": 5, "change": {"kind": "remove", "id": 0}}
    view = VIEW | {"settings": SMALL, "edits": [edit], "current": 1}
    page.goto(studio.address + browser.packed(view))
    until(page, "!!studio.store.opened")
    page.click("#dice")
    until(page, "studio.store.opened.settings.seed === 1")
    held.let("seen", "truth", "branch", "futures", "done", "masks")
    done(page, 1)
    assert state(page, "current") == 1
    assert state(page, "frame") == VIEW["frame"]
    page.close()


def test_a_video_that_cannot_be_inferred_is_replaced_by_the_default_view(
    chromium: Browser, studio: browser.Studio
) -> None:
    page = chromium.new_page()
    page.set_default_timeout(SECONDS)
    held = Held(page, "hello", "opened")
    page.goto(studio.address + browser.packed(VIEW | {"settings": SMALL}))
    until(page, "studio.store.opened?.episode === 1")
    assert held.page is not None
    held.page.send(encode({"type": "error", "line": "it cannot", "request": 0, "of": "open"}))
    until(page, "studio.store.opened.episode === 0")
    expect(page.locator("#toast.wrong")).to_have_text("it cannot")
    held.let("seen", "truth", "branch", "futures", "done", "masks")
    done(page, 0)
    page.close()


def test_a_page_opens_playing_and_lists_models_by_kind(
    chromium: Browser, studio: browser.Studio
) -> None:
    page = chromium.new_page()
    page.set_default_timeout(SECONDS)
    page.goto(studio.address)
    until(page, "studio.store.playing && studio.store.frame > 1")
    groups = page.locator("#model optgroup").evaluate_all("(all) => all.map((one) => one.label)")
    assert groups[0] == "G-SWM"
    assert {"SCALOR", "STOVE"} < set(groups)
    assert page.locator("#model option").count() == len(shipped())
    page.close()


def test_on_a_phone_an_edit_leaves_the_canvas_where_it_was(
    chromium: Browser, studio: browser.Studio
) -> None:
    page = chromium.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(SECONDS)
    page.goto(studio.address + browser.packed(VIEW | {"settings": SMALL | {"sample": False}}))
    done(page, 0)
    canvas = page.locator("#pane-imagined canvas")
    before = canvas.bounding_box()
    for number, key in enumerate(("Alt+ArrowUp", "d", "Delete"), start=1):
        page.keyboard.press("0")
        page.keyboard.press(key)
        done(page, number)
        expect(page.locator("#history li.on")).to_have_count(1)
        assert canvas.bounding_box() == before, key
    assert page.evaluate("scrollY") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def test_files_and_a_link_are_exported(tab: Callable[..., Page], studio: browser.Studio) -> None:
    page = tab(sample=False)
    page.keyboard.press("0")
    page.keyboard.press("Alt+ArrowUp")
    done(page, 1)
    page.click("#take summary")
    with page.expect_download() as download:
        page.click('[data-file="gif"]')
    with Image.open(download.value.path()) as gif:
        assert gif.n_frames == 16
    page.click("#take summary")
    with page.expect_download() as download:
        page.click("#take-json")
    view = json.loads(Path(download.value.path()).read_text())
    assert len(view["edits"]) == 1
    page.click("#take summary")
    page.click("#take-link")
    until(page, "location.hash.startsWith('#view=')")
    expected = objects(page, 1, 0, 12)
    other = page.context.new_page()
    other.goto(page.url)
    done(other, 1)
    assert objects(other, 1, 0, 12) == expected
    assert state(other, "current") == 1


BAD_VIEWS = [
    VIEW | {"edits": 5},
    5,
    [],
    {"model": 5, "world": "two-layer"},
    VIEW | {"edits": [5]},
    VIEW | {"edits": None},
    VIEW | {"toggles": 5, "frame": "x"},
    VIEW | {"current": -5, "future": -1},
    VIEW | {"settings": {"steps": "x"}},
    VIEW | {"model": "nothing"},
    VIEW | {"episode": 10**400},
]


@pytest.mark.parametrize(
    "view", [BAD_VIEWS[0], *(pytest.param(view, marks=pytest.mark.slow) for view in BAD_VIEWS[1:])]
)
def test_a_damaged_link_opens_the_usual_view(
    view: object, chromium: Browser, studio: browser.Studio
) -> None:
    wrong: list[str] = []
    page = chromium.new_page()
    page.set_default_timeout(SECONDS)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(studio.address + browser.packed(view))
    done(page, 0)
    assert wrong == []
    expect(page.locator("#toast.wrong")).to_be_visible()
    assert state(page, "opened.model") == VIEW["model"]
    page.close()


def test_a_saved_view_that_cannot_be_opened_leaves_the_page_as_it_was(
    tab: Callable[..., Page], tmp_path: Path
) -> None:
    page = tab()
    saved = tmp_path / "view.json"
    for view in (VIEW | {"edits": 5}, VIEW | {"settings": {"steps": 0}}):
        saved.write_text(json.dumps(view))
        page.set_input_files("#file", saved)
        expect(page.locator("#toast.wrong")).to_be_visible()
        page.evaluate("document.querySelector('#toast').hidden = true")
    page.keyboard.press("0")
    page.keyboard.press("Delete")
    done(page, 1)
    assert state(page, "current") == 1


def test_two_tabs_do_not_disturb_each_other(tab: Callable[..., Page]) -> None:
    one, two = tab(sample=False), tab(sample=False)
    one.keyboard.press("0")
    one.keyboard.press("Delete")
    done(one, 1)
    assert len(state(two, "branches")) == 1
    two.keyboard.press("1")
    two.keyboard.press("Alt+ArrowDown")
    done(two, 1)
    assert 0 not in objects(one, 1, 0, 9)
    assert 0 in objects(two, 1, 0, 9)


def test_a_page_goes_on_when_its_server_comes_back(chromium: Browser) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:  # of which no other studio thinks
        port = free.getsockname()[1]
    context = chromium.new_context()
    context.set_default_timeout(SECONDS)
    started = [browser.Studio(port)]
    try:
        page = context.new_page()
        view = VIEW | {"settings": SMALL | {"sample": False}}
        page.goto(started[0].address + browser.packed(view))
        done(page, 0)
        page.keyboard.press("0")
        page.keyboard.press("Delete")
        done(page, 1)
        expected = objects(page, 1, 0, 12)
        started[0].kill()
        expect(page.locator("#gone")).to_be_visible()
        page.evaluate("delete document.body.dataset.done")
        started.append(browser.Studio(port))
        assert started[0].address != started[1].address
        context.new_page().goto(started[1].address)
        done(page, 1)
        expect(page.locator("#gone")).to_be_hidden()
        assert objects(page, 1, 0, 12) == expected
        page.reload()
        done(page, 1)
        assert objects(page, 1, 0, 12) == expected
    finally:
        context.close()
        for each in started:
            each.kill()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 800])
def test_the_page_fits_and_can_be_read(
    chromium: Browser, studio: browser.Studio, scheme: Any, width: int
) -> None:
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(SECONDS)
    page.goto(studio.address + browser.packed(VIEW | {"settings": SMALL}))
    done(page, 0)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colors = page.evaluate(
        """() => ["--ink", "--paper", "--soft"].map((name) => {
            const probe = document.createElement("i");
            document.body.append(probe);
            probe.style.color = `var(${name})`;
            return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
        })"""
    )
    ink, paper, soft = map(luminance, colors)
    assert contrast(ink, paper) > 7
    assert contrast(soft, paper) > 4.5
    assert (paper < ink) == (scheme == "dark")
    page.close()


def luminance(rgb: list[float]) -> float:
    """Relative, as WCAG has it."""
    parts = [v / 255 for v in rgb]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)
