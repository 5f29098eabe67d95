"""Sessions: branches, edits, and messages to the page."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import tiny
import tiny_scalor
import tiny_silot
import tiny_sqair
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from studio import Page, catalog
from torch import Tensor

from gswm.data.episode import Episodes
from gswm.models.base import Discover, WorldModel
from gswm.models.gswm.gswm import GSWM
from gswm.models.track import Track
from gswm.studio import branches, desk
from gswm.studio.catalog import Catalog
from gswm.studio.perceiving import CHUNK
from gswm.studio.protocol import MOST_EDITS
from gswm.weights.files import read_header
from gswm.weights.finding import find

MOVE = {"kind": "move", "id": 0, "xy": [0.5, 0.5]}


def test_an_episode_is_opened_seen_and_imagined() -> None:
    page = Page().open()
    kinds = [head["type"] for head, _ in page.heard]
    seen = ["seen", "seen"]
    assert kinds == ["opened", *seen, "branch", *["futures"] * 3, "done", *seen]
    ((opened, arrays),) = page.of("opened")
    assert opened["settings"]["given"] == 4
    assert arrays["pixels"].shape == (8, 64, 64, 3)
    assert page.of("branch")[0][1]["pixels"].shape == (4, 64, 64, 3)
    assert page.futures(0).shape == (2, 6, 4, len(branches.COLUMNS))
    assert [head["at"] for head, _ in page.of("seen")] == [0, CHUNK, 4, 4 + CHUNK]
    drawn = np.concatenate([arrays["pixels"] for _, arrays in page.of("seen")])
    np.testing.assert_array_equal(drawn[:4], page.of("branch")[0][1]["pixels"])


def test_true_boxes_follow_the_objects_that_name_them(tmp_path: Path) -> None:
    shelf = Catalog()
    shelf.add_weights("ball", str(tiny.ship(tmp_path, "single-ball")))
    shelf.add_world("single-ball")
    page = Page(shelf).open(model="ball", world="single-ball")
    kinds = [head["type"] for head, _ in page.heard]
    assert kinds[:5] == ["opened", "seen", "seen", "truth", "branch"]
    ((_, opened),) = page.of("opened")
    ((_, truth),) = page.of("truth")
    assert truth["objects"].shape[0] == opened["pixels"].shape[0]
    assert truth["objects"].shape[-1] == len(branches.COLUMNS)


@pytest.mark.parametrize("recipe", ["interaction", "maze"])
def test_pieces_are_the_models_own_imagination(recipe: str) -> None:
    page = Page(catalog(recipe)).open(settings={"sample": False})
    model, video = page.session.desk.model, page.session.desk.episodes.video
    track = model.imagine(video, 4, 6, sample=False)
    heard = page.futures(0)[0]
    np.testing.assert_allclose(heard[..., :2], track.xy[0, 0], atol=1e-5)
    np.testing.assert_allclose(heard[..., 6], track.id[0, 0])
    pixels = np.concatenate([arrays["pixels"] for _, arrays in page.of("futures")], axis=1)
    drawn = (255 * track.reconstruction[0, 0]).permute(0, 2, 3, 1).numpy()
    assert np.abs(pixels[0] - drawn).max() < 0.6
    black = ["background" not in arrays for _, arrays in page.of("futures")]
    assert all(black) == (recipe == "interaction")


@pytest.mark.parametrize("kind", ["world", "imported", "upload"])
def test_objects_that_enter_later_are_found_in_videos_of_ones_own(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, video = Catalog(), catalog().episode("noise", 0, 64).video
    shelf.add_model("small", catalog().model("small"), "noise", 4)
    shelf.add_source("noise", lambda _: Episodes(video), own=kind == "imported")
    name = shelf.add_upload(video) if kind == "upload" else "noise"
    asked, infer = [], GSWM.infer

    def seen(self: GSWM, video: Any, *, discover: Discover, background: None) -> Track:
        asked.append(discover)
        return infer(self, video, discover=discover)

    monkeypatch.setattr(GSWM, "infer", seen)
    Page(shelf).open(world=name)
    assert asked == ["first" if kind == "world" else "always"]


def with_static_background(video: Tensor, background: Tensor | None = None) -> Page:
    """A page on which a model of a fixed camera has opened a video."""
    shelf = Catalog()
    shelf.add_model("small", tiny.lively("clips", image_size=64).eval(), "own", 4)
    shelf.add_source("own", lambda _: Episodes(video, background=background), own=True)
    return Page(shelf).open(world=shelf.add_upload(video) if background is None else "own")


def test_the_background_is_that_of_the_episode() -> None:
    video = torch.full((1, 8, 3, 64, 64), 200, dtype=torch.uint8)
    behind = torch.arange(64, dtype=torch.uint8).expand(1, 3, 64, 64)
    page = with_static_background(video, behind)
    assert torch.equal(
        page.session.desk.branches[0].moments[0].states[0].context.picture, behind / 255
    )


def test_the_background_of_an_upload_is_of_all_its_frames_and_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    video = torch.full((1, 20, 3, 64, 64), 90, dtype=torch.uint8)
    video[:, :4, :, 20:40, 20:40] = 250  # in all frames that are given, and gone later
    asked, found = [], GSWM.background_for

    def counted(self: GSWM, video: Any) -> Any:
        asked.append(video.shape[1])
        return found(self, video)

    monkeypatch.setattr(GSWM, "background_for", counted)
    page = with_static_background(video)
    picture = page.session.desk.branches[0].moments[0].states[0].context.picture
    torch.testing.assert_close(picture, torch.full_like(picture, 90 / 255), atol=0.02, rtol=0)
    (name,) = page.session.desk.catalog.uploads
    page.open(world=name, settings={"seed": 1})
    assert asked == [20]


def test_samples_differ_and_the_mean_is_one_future() -> None:
    page = Page().open()
    first = page.futures(0)
    assert not np.allclose(first[0, ..., :2], first[1, ..., :2])
    page.open(settings={"seed": 1})
    assert not np.allclose(first, page.futures(0))
    page.open(settings={"sample": False})
    mean = page.futures(0)
    assert len(mean) == 1
    page.open(settings={"sample": False, "seed": 1})
    assert np.array_equal(mean, page.futures(0))


@pytest.mark.parametrize(
    ("change", "column", "value"),
    [
        (MOVE, slice(0, 2), [0.5, 0.5]),
        ({"kind": "resize", "id": 0, "hw": [0.3, 0.4]}, slice(2, 4), [0.3, 0.4]),
        ({"kind": "depth", "id": 0, "depth": 7.0}, slice(4, 5), [7.0]),
    ],
)
def test_an_edit_changes_one_object_of_one_frame(
    change: dict[str, Any], column: slice, value: list[float]
) -> None:
    page = Page().open()
    before = page.session.desk.branches[0].moments
    page.edit(change)
    branch = page.session.desk.branches[1]
    assert branch.moments[:3] == before[:3]
    after, then = branch.moments[3].objects[0], before[3].objects[0]
    mine = then[:, 6] == 0
    np.testing.assert_allclose(after[mine, column][0], value, atol=1e-6)
    np.testing.assert_allclose(after[~mine, :7], then[~mine, :7])
    assert not np.allclose(page.futures(1), page.futures(0))


def test_objects_are_removed_duplicated_and_given_anothers_look() -> None:
    page = Page().open()
    first, second, *_ = page.ids()
    page.edit({"kind": "remove", "id": first})
    there = page.session.desk.branches[1].moments[3].objects[0]
    assert first not in there[there[:, 5] > 0.5, 6]
    page.edit({"kind": "duplicate", "id": second, "xy": [0.1, 0.2]}, branch=1)
    there = page.session.desk.branches[2].moments[3].objects[0]
    new = there[there[:, 6] == max(page.ids()) + 1]
    np.testing.assert_allclose(new[0, :2], [0.1, 0.2], atol=1e-6)
    page.edit({"kind": "look", "id": first, "other": second})
    scene = page.session.desk.branches[3].moments[3].states[0]
    look = {int(i): w for i, w in zip(scene.objects.id[0], scene.objects.o.what[0], strict=True)}
    assert np.array_equal(look[first], look[second])


def test_a_model_that_draws_no_scenes_keeps_its_picture_and_imagines_from_the_edit() -> None:
    page = Page(shelf_of(tiny_scalor.lively())).open()
    ((opened, _),) = page.of("opened")
    assert opened["edits"] is False  # the page offers none, and a saved view may have some
    page.edit({"kind": "move", "id": page.ids()[0], "xy": [0.5, 0.5]})
    assert not page.of("error")
    before, after = (page.session.desk.branches[i].moments[3] for i in (0, 1))
    assert np.array_equal(after.pixels, before.pixels)
    assert not np.allclose(page.futures(1), page.futures(0))


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (tiny_silot.lively, {"kind": "move", "xy": [0.5, 0.5]}),
        (tiny_silot.lively, {"kind": "resize", "hw": [0.3, 0.4]}),
        (tiny_silot.lively, {"kind": "remove"}),
        (tiny_silot.lively, {"kind": "throw", "xy": [0, 0], "velocity": [0.1, 0]}),
        (tiny_sqair.lively, {"kind": "move", "xy": [0.5, 0.5]}),
        (tiny_sqair.lively, {"kind": "remove"}),
    ],
)
def test_a_model_of_slots_is_edited_and_drawn_anew(
    make: Callable[[], WorldModel[Any]], change: dict[str, Any]
) -> None:
    page = Page(shelf_of(make())).open()
    ((opened, _),) = page.of("opened")
    assert opened["edits"] is True
    page.edit(change | {"id": page.ids()[0]})
    assert not page.of("error")
    before, after = (page.session.desk.branches[i].moments[3] for i in (0, 1))
    assert not np.array_equal(after.pixels, before.pixels)
    assert not np.allclose(page.futures(1), page.futures(0))


def shelf_of(model: WorldModel[Any]) -> Catalog:
    shelf = Catalog()
    video = (255 * tiny.video(batch=1, time=8)).to(torch.uint8)
    shelf.add_model("small", model.eval(), "noise", 4)
    shelf.add_source("noise", lambda index: Episodes(video))
    return shelf


def test_a_throw_draws_the_last_frames_anew() -> None:
    page = Page().open().edit({"kind": "throw", "id": 0, "xy": [0, 0], "velocity": [0.1, 0]})
    head, arrays = page.of("branch")[-1]
    assert head["frame"] == 3
    assert 1 <= len(arrays["pixels"]) == 4 - head["first"] <= 3
    branch = page.session.desk.branches[1]
    assert branch.moments[: branch.first] == page.session.desk.branches[0].moments[: branch.first]


def test_an_imagined_frame_is_edited_in_its_own_future() -> None:
    page = Page().open().edit(MOVE, frame=6, future=1)
    branch = page.session.desk.branches[1]
    heard = page.futures(0)[1]
    for frame in (4, 5):
        np.testing.assert_allclose(branch.moments[frame].objects[0], heard[frame - 4])
    assert page.futures(1).shape[1] == 3


def test_what_was_dropped_is_imagined_again_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page().open()
    first = page.futures(0)
    monkeypatch.setattr(desk, "MEMORY", 0)
    page.edit(MOVE)
    assert page.session.desk.branches[0].futures == []
    page.say(type="show", branch=0)
    page.work()
    assert np.array_equal(page.futures(0), first)
    assert page.session.desk.branches[1].futures == []


def test_a_view_is_restored() -> None:
    page = Page().open().edit(MOVE).edit({"kind": "remove", "id": 1}, frame=5, branch=1)
    edits = [head["edit"] for head, _ in page.of("branch") if head["edit"]]
    other = Page().open(edits=edits, current=2)
    assert np.array_equal(other.futures(2), page.futures(2))
    assert {head["branch"] for head, _ in other.of("futures")} == {2}


def test_an_edit_that_no_longer_fits_is_left_out() -> None:
    edits = [{"branch": 0, "frame": 50, "change": MOVE}, {"branch": 1, "frame": 3, "change": MOVE}]
    page = Page().open(edits=edits, current=2)
    ((error, _),) = page.of("error")
    assert "an edit was skipped: there is no frame 50" in error["line"]
    assert error["of"] == "edits"
    assert len(page.futures(0)) == 2


def test_the_newest_wins() -> None:
    page = Page().open()
    for at in (0.1, 0.2, 0.3):
        change = {"kind": "move", "id": 0, "xy": [at, 0]}
        page.say(type="edit", branch=0, frame=3, change=change, live=True, request=int(10 * at))
    page.work()
    previews = [head["request"] for head, _ in page.of("preview") if "request" in head]
    assert previews == [3]
    assert len(page.session.desk.branches) == 1
    page.say(type="edit", branch=0, frame=3, change=MOVE)
    page.say(type="edit", branch=0, frame=2, change=MOVE)
    page.work()
    assert len(page.session.desk.branches) == 3
    done = [head["branch"] for head, _ in page.of("done") if head["kind"] == "futures"]
    assert done[-1] == 2
    assert 1 not in done


def test_an_edit_waits_for_what_is_being_opened() -> None:
    page = Page()
    page.say(type="open", model="small", world="noise", settings={"given": 4, "steps": 6})
    page.say(type="edit", branch=0, frame=3, change=MOVE)
    page.work()
    assert page.of("error") == []
    assert [head["branch"] for head, _ in page.of("branch")] == [0, 1]
    assert [head["branch"] for head, _ in page.of("done")] == [1]


def test_what_is_opened_next_does_not_wait() -> None:
    page = Page()
    for episode in range(3):
        page.say(type="open", model="small", world="noise", episode=episode)
        page.session.step()
    page.work()
    assert page.of("opened")[-1][0]["episode"] == 2
    assert len(page.of("done")) == 1


def test_a_mistake_is_one_line_and_the_session_stands() -> None:
    page = Page().open()
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"type": "edit", "branch": 9, "frame": 0, "change": MOVE}, "there is no branch 9"),
        ({"type": "edit", "branch": 0, "frame": 99, "change": MOVE}, "there is no frame 99"),
        ({"type": "edit", "branch": 0, "frame": 5, "future": 7, "change": MOVE}, "no future 7"),
        (
            {"type": "edit", "branch": 0, "frame": 3, "change": MOVE | {"id": 77}},
            "there is no object 77",
        ),
        ({"type": "open", "model": "../x", "world": "noise"}, "there is no model '../x'"),
        ({"type": "open", "model": "small", "world": "/etc/passwd"}, "there is no world"),
        ({"type": "open", "model": "small", "world": "upload-1"}, "open it again"),
        ({"type": "masks", "branch": 5}, "there is no branch 5"),
        ({"type": "export", "kind": "gif", "branch": 5}, "there is no branch 5"),
    ]
    for message, said in mistakes:
        page.say(**message, request=7) if message["type"] == "edit" else page.say(**message)
        page.work()
        error, _ = page.of("error")[-1]
        assert said in error["line"]
    done = len(page.of("done"))
    page.edit(MOVE)
    assert len(page.of("done")) == done + 1


def test_the_page_hears_that_nothing_was_opened() -> None:
    page = Page()
    page.open(world="nowhere")
    assert page.of("error")[-1][0]["of"] == "open"
    page.open()
    page.edit(MOVE | {"id": 77})
    assert page.of("error")[-1][0]["of"] == ""


def test_a_failure_is_told_without_its_details(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page().open()
    monkeypatch.setattr(desk, "changed", lambda *_: 1 / 0)
    page.edit(MOVE)
    assert page.of("error")[-1][0]["line"] == "internal error: ZeroDivisionError"


def test_there_is_an_end_to_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "MOST_EDITS", 2)
    page = Page().open()
    for _ in range(4):
        page.edit(MOVE)
    assert len(page.session.desk.branches) == 3 < MOST_EDITS
    assert "reopen the episode" in page.of("error")[-1][0]["line"]


def test_masks_say_whose_a_pixel_is() -> None:
    page = Page().open()
    page.say(type="masks", branch=0, future=1)
    page.work()
    owners = np.concatenate([arrays["owners"] for _, arrays in page.of("masks")])
    assert owners.shape == (10, 64, 64)
    assert set(np.unique(owners)) <= {*page.ids(), 255}


@pytest.mark.slow
def test_files_can_be_opened(tmp_path: Any) -> None:
    page = Page().open(settings={"steps": 2}).edit(MOVE)
    for kind in ("gif", "mp4", "png", "csv"):
        page.say(type="export", kind=kind, branch=1, compare=0)
    page.work()
    data = {h["name"].split(".")[-1]: a["data"].tobytes() for h, a in page.of("file")}
    with Image.open(io.BytesIO(data["gif"])) as gif:
        assert gif.n_frames == 6
    with av.open(io.BytesIO(data["mp4"])) as container:
        assert sum(1 for _ in container.decode(video=0)) == 6
    with Image.open(io.BytesIO(data["png"])) as png:
        assert png.width > png.height
    rows = list(csv.DictReader(io.StringIO(data["csv"].decode())))
    assert {row["future"] for row in rows} == {"-1", "0", "1"}
    moved = [row for row in rows if (row["frame"], row["id"]) == ("3", "0")]
    assert [(float(row["x"]), float(row["y"])) for row in moved] == [(0.75, 0.75)]


CHANGES = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            ["move", "throw", "resize", "depth", "remove", "duplicate", "look"]
        ),
        "id": st.integers(0, 5),
        "xy": st.lists(st.floats(-2, 2), min_size=2, max_size=2),
        "velocity": st.lists(st.floats(-2, 2), min_size=2, max_size=2),
        "hw": st.lists(st.floats(0.02, 1), min_size=2, max_size=2),
        "depth": st.floats(-1e3, 1e3),
        "other": st.integers(0, 5),
    }
)


@settings(max_examples=6)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 10), st.integers(0, 2), CHANGES, st.booleans()),
        max_size=4,
    )
)
def test_any_edits_give_branches_of_finite_numbers_or_one_line(edits: list[Any]) -> None:
    page = Page().open(settings={"steps": 3})
    for number, frame, future, change, live in edits:
        page.edit(change, frame, branch=number, future=future, live=live)
    for head, arrays in page.heard:
        assert head["type"] != "error" or "internal error" not in head["line"]
        assert all(np.isfinite(array).all() for array in arrays.values())


def test_a_model_that_does_not_fit_the_video_says_so() -> None:
    shelf, header = Catalog(), read_header(find("single-ball"))
    shelf.add_weights("ball", "single-ball")
    shelf.add_source("noise", video_of_noise, own=True)
    page = Page(shelf).open(model="ball", world="noise")
    ((note, _),) = page.of("note")
    assert "does not fit this video" in note["line"]
    assert header["recipe"].data.world in note["line"]
    shelf.add_world("single-ball")
    page = Page(shelf).open(model="ball", world="single-ball", settings={"given": 5, "steps": 4})
    assert page.of("note") == []


def test_a_model_is_not_judged_by_frames_in_which_nothing_moves() -> None:
    shelf, still = Catalog(), torch.full((1, 8, 3, 64, 64), 90, dtype=torch.uint8)
    shelf.add_weights("ball", "single-ball")
    shelf.add_source("still", lambda _: Episodes(still), own=True)
    assert Page(shelf).open(model="ball", world="still").of("note") == []


def video_of_noise(index: int) -> Episodes:
    return Episodes((255 * tiny.video(batch=1, time=8)).to(torch.uint8))


def test_an_edit_in_the_last_frame_says_that_nothing_follows() -> None:
    page = Page().open()
    page.edit(MOVE, frame=9)
    ((note, _),) = page.of("note")
    assert "last frame" in note["line"]
    assert page.of("branch")[-1][0]["branch"] == 1
    page = Page().open()
    page.edit(MOVE, frame=8)
    assert page.of("note") == []
