"""Cached episodes: equal to generated ones, bounded in size, and always complete sets."""

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from test_loader import EPISODES, FRAMES, SIZE, Noise

from gswm.data.batches import kept as kept_module
from gswm.data.batches.kept import KeptSet, default_folder
from gswm.data.batches.loader import open_loader
from gswm.data.batches.resident import Loader
from gswm.data.episode import Episodes
from gswm.data.worlds.base import MEMORY
from gswm.data.worlds.registry import WORLDS


class Known(Noise):
    """A world that says what its episodes depend on, and notes which were made."""

    def __init__(self, stops_after: int = EPISODES) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []
        self.stops_after = stops_after

    def identity(self) -> str:
        return "known"

    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = MEMORY,
        first: int = 0,
    ) -> Iterator[Episodes]:
        assert n is not None
        self.asked.append((first, n))
        made = 0
        for part in super().episodes(seed, n, device, memory, first):
            if made >= self.stops_after:
                raise KeyboardInterrupt
            yield part
            made += len(part)


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every set as slow to generate, and every disk as large enough."""
    monkeypatch.setattr(kept_module, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(kept_module, "FREE_BYTES", 0)


def opened(world: Noise, folder: Path | None, **options: int) -> Loader:
    return open_loader(world, batch=4, length=5, kept=folder, **options)


def same(ours: Loader, theirs: Loader) -> bool:
    return all(torch.equal(ours.batch(i).video, theirs.batch(i).video) for i in range(4))


def test_kept_episodes_are_those_that_are_made_and_are_made_once(tmp_path: Path) -> None:
    world, again = Known(), Known()
    first, second = opened(world, tmp_path), opened(again, tmp_path)
    assert same(first, opened(Noise(), None))
    assert same(second, first)
    assert world.asked == [(0, EPISODES)]
    assert again.asked == []
    assert first.state_dict() == second.state_dict()


def test_a_new_set_tells_its_size_and_its_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[int] = []
    frame = FRAMES * SIZE * SIZE * 3
    again = {"batch": 4, "length": 5, "kept": tmp_path, "progress": done.append}
    open_loader(Known(), memory=3 * frame, **again)
    assert done == [3, 6, 7]
    assert f"caching {EPISODES} episodes of noise, " in capsys.readouterr().err
    open_loader(Known(), **again)
    assert capsys.readouterr().err == ""


def test_fewer_episodes_are_the_first_of_a_set_and_more_complete_it(tmp_path: Path) -> None:
    opened(Known(), tmp_path, episodes=4)
    world = Known()
    assert same(opened(world, tmp_path), opened(Noise(), None))
    assert world.asked == [(4, EPISODES - 4)]
    world = Known()
    assert same(opened(world, tmp_path, episodes=2), opened(Noise(), None, episodes=2))
    assert world.asked == []


def test_an_interrupted_set_is_continued_where_it_was(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        opened(Known(stops_after=3), tmp_path)
    world = Known()
    assert same(opened(world, tmp_path), opened(Noise(), None))
    assert world.asked == [(3, EPISODES - 3)]


def test_other_frames_are_another_set(tmp_path: Path) -> None:
    opened(Known(), tmp_path)
    opened(Known(), tmp_path, first_frames=6)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("lost", ["video", "set.json"])
def test_a_set_that_lost_a_file_is_made_again(tmp_path: Path, lost: str) -> None:
    opened(Known(), tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / lost).unlink()
    world = Known()
    assert same(opened(world, tmp_path), opened(Noise(), None))
    assert world.asked == [(0, EPISODES)]


def test_a_set_can_be_deleted_while_it_is_used(tmp_path: Path) -> None:
    loader = opened(Known(), tmp_path)
    shutil.rmtree(tmp_path)
    assert same(loader, opened(Noise(), None))


def test_a_set_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    opened(Known(), tmp_path, episodes=4)
    (folder,) = tmp_path.iterdir()
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert same(opened(Known(), tmp_path), opened(Noise(), None))
    assert KeptSet(folder).episodes == 4


def test_the_oldest_sets_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = EPISODES * FRAMES * SIZE * SIZE * 3
    monkeypatch.setattr(kept_module, "MOST_BYTES", size * 3 // 2)
    opened(Known(), tmp_path)
    opened(Known(), tmp_path, first_frames=11)
    (left,) = tmp_path.iterdir()
    assert KeptSet(left).header["arrays"]["video"][1][0] == 11
    monkeypatch.setattr(kept_module, "MOST_BYTES", size // 2)
    opened(Known(), tmp_path, first_frames=10)
    assert list(tmp_path.iterdir()) == [left]


def test_sets_that_are_made_quickly_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_module, "LEAST_SECONDS", 3600.0)
    assert same(opened(Known(), tmp_path), opened(Noise(), None))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert same(opened(Known(), tmp_path / "file" / "episodes"), opened(Noise(), None))


def test_worlds_of_the_package_say_what_their_episodes_depend_on() -> None:
    said = [world.identity() for world in WORLDS.values()]
    assert all(said)
    assert len(set(said)) == len(said)
    for world in WORLDS.values():
        assert world.resized(128).identity() != world.resized(64).identity()
        assert world.with_workers(3).identity() == world.identity()


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder() == Path("/somewhere/gswm/episodes")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "gswm" / "episodes"
