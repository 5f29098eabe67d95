"""An opened video: the page shows it at once, and its objects as they are inferred."""

import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import tiny
from studio import Page
from torch import Tensor

from gswm.core.errors import UserError
from gswm.models.gswm.gswm import GSWM
from gswm.models.track import Track
from gswm.studio.catalog import Catalog, PreparedView
from gswm.studio.perceiving import CHUNK

MOVE = {"kind": "move", "id": 0, "xy": [0.5, 0.5]}
GIVEN = 2 * CHUNK + 1


def asked(page: Page, **more: Any) -> Page:
    """A page that has asked for a video."""
    settings = {"given": GIVEN, "steps": 3, "futures": 2}
    page.say(type="open", **{"model": "small", "world": "noise", "settings": settings, **more})
    return page


def until(page: Page, kind: str, loading: Future[Any] | None = None) -> Page:
    """Work until the page hears a message of this kind, and no further."""
    for _ in range(500):
        while page.session.waiting and page.session.awaited is not loading:
            time.sleep(0.01)
        if page.of(kind):
            return page
        page.session.step()
    raise AssertionError(f"no {kind} was heard")


@pytest.fixture
def no_inference(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A model that fails if it infers anything; undo it to let it infer."""

    def infer(self: GSWM, video: Tensor, **how: Any) -> Track:
        raise UserError("this model infers nothing")

    with monkeypatch.context() as patch:
        patch.setattr(GSWM, "infer", infer)
        patch.setattr(GSWM, "infer_after", infer)
        yield patch


def test_a_video_is_shown_before_any_inference(no_inference: pytest.MonkeyPatch) -> None:
    page = until(asked(Page()), "opened")
    ((opened, arrays),) = page.heard
    assert opened["settings"]["given"] == GIVEN
    assert arrays["pixels"].shape == (8, 64, 64, 3)
    no_inference.undo()
    page.work()
    assert page.of("error") == []
    assert [head["at"] for head, _ in page.of("seen")][:3] == [0, CHUNK, 2 * CHUNK]
    assert len(page.of("done")) == 1


def test_a_piece_of_work_infers_one_chunk() -> None:
    page = until(asked(Page()), "opened")
    for number in (1, 2, 3):
        page.session.step()
        assert len(page.of("seen")) == number
        assert not page.of("branch")


def test_an_edit_of_a_video_without_objects_is_answered_when_they_are_there() -> None:
    page = until(asked(Page()), "opened")
    assert page.session.desk.chunks == []
    for number in (1, 2, 3):  # dragged, and let go
        live = number < 3
        page.say(type="edit", branch=0, frame=1, change=MOVE, live=live, request=number)
    page.work()
    assert page.of("error") == []
    assert [(head["branch"], head["request"]) for head, _ in page.of("branch")] == [(0, 0), (1, 3)]


def test_an_edit_of_a_video_that_cannot_be_inferred_is_refused(
    no_inference: pytest.MonkeyPatch,
) -> None:
    page = until(asked(Page()), "opened")
    page.say(type="edit", branch=0, frame=1, change=MOVE, request=5)
    page.work()
    (opening, _), (edit, _) = page.of("error")
    assert (opening["of"], opening["line"]) == ("open", "this model infers nothing")
    assert (edit["of"], edit["request"]) == ("", 5)
    assert "no video is open" in edit["line"]
    no_inference.undo()
    assert asked(page).work().of("done")


@pytest.mark.parametrize("begun", [False, True])
def test_masks_of_the_last_video_hold_up_no_other(begun: bool) -> None:
    page = Page().open(settings={"steps": 30})
    page.say(type="masks", branch=0)
    for _ in range(1 + begun):
        page.session.step()
    page.heard.clear()
    asked(page).session.step()
    while page.session.waiting:
        time.sleep(0.01)
    page.session.step()
    assert [head["type"] for head, _ in page.heard] == ["opened"]
    page.work()
    assert page.of("masks") == page.of("error") == []


def test_masks_are_drawn_while_a_video_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page().open()
    page.say(type="masks", branch=0)
    page.session.step()
    loading: Future[PreparedView] = Future()
    monkeypatch.setattr(Catalog, "prepare", lambda *_: loading)
    asked(page).session.step()
    until(page, "masks", loading)
    assert page.session.long
    loading.set_exception(UserError("it cannot be loaded"))
    page.work()
    assert page.of("error")[-1][0]["of"] == "open"


@pytest.fixture
def ball(tmp_path: Path) -> Catalog:
    """A catalog with a model of a file, whose inferred chunks pages share."""
    shelf = Catalog()
    shelf.add_weights("ball", str(tiny.ship(tmp_path, "single-ball")))
    shelf.add_world("single-ball")
    return shelf


def half_inferred(shelf: Catalog) -> Page:
    """A page that shows the first objects of a video."""
    page = until(asked(Page(shelf), model="ball", world="single-ball"), "seen")
    assert len(shelf.inferred) == 1
    return page


def test_a_page_that_is_closed_while_its_video_is_inferred_leaves_nothing(ball: Catalog) -> None:
    page = half_inferred(ball)
    page.session.close()
    assert not page.session.busy
    assert not page.session.urgent
    assert len(ball.inferred) == 0


def test_a_video_that_is_replaced_while_it_is_inferred_leaves_nothing(ball: Catalog) -> None:
    page = half_inferred(ball)
    asked(page, model="ball", world="single-ball", episode=1).session.step()
    assert len(ball.inferred) == 0
    heard = len(page.heard)
    page.work()
    assert page.heard[heard][0]["episode"] == 1
    assert len(page.of("done")) == 1


def test_a_video_that_cannot_be_opened_ends_the_one_that_is_inferred(ball: Catalog) -> None:
    page = half_inferred(ball)
    asked(page, world="nowhere").work()
    ((error, _),) = page.of("error")
    assert error["of"] == "open"
    assert not page.session.urgent
    assert len(ball.inferred) == 0
