"""Batches as records: actions, rewards and backgrounds of windows of files and worlds."""

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gswm.cli import main
from gswm.core.errors import UserError
from gswm.core.records import concatenate
from gswm.data.batches.batch import Batch
from gswm.data.batches.loader import Pool, open_loader
from gswm.data.batches.resident import Loader
from gswm.data.batches.windows import Windows
from gswm.data.episode import Episodes
from gswm.data.storage.frame_file import FrameFile
from gswm.data.storage.hdf5 import read
from gswm.data.storage.writer import Writer
from gswm.data.worlds.base import MEMORY, Split, World
from gswm.eval.evaluate import cut
from gswm.eval.protocols import Protocol

EPISODES, FRAMES, SIZE, ACTION = 7, 12, 8, 3
EXTRAS = ("actions", "rewards", "background")


def noise(seed: int, n: int, parts: tuple[str, ...] = EXTRAS) -> Episodes:
    """The first `n` episodes of `seed`, of random numbers."""
    most = 20
    generator = torch.Generator().manual_seed(seed)
    video, ground = (
        torch.randint(256, shape, generator=generator, dtype=torch.uint8)
        for shape in ((most, FRAMES, 3, SIZE, SIZE), (most, 3, SIZE, SIZE))
    )
    whole = Episodes(
        video,
        actions=torch.rand(most, FRAMES, ACTION, generator=generator),
        rewards=torch.rand(most, FRAMES, generator=generator),
        background=ground,
    )
    return replace(whole, **{name: None for name in EXTRAS if name not in parts})[:n]


class Acting(World):
    """A world whose episodes have actions, rewards and a background, made three at a time."""

    name = "acting"
    num_frames = FRAMES
    image_size = SIZE
    num_objects = 1
    layout = "video"

    def __init__(self, parts: tuple[str, ...] = EXTRAS) -> None:
        self.parts = parts
        self.splits = {"train": Split(5, EPISODES)}

    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = MEMORY,
        first: int = 0,
    ) -> Iterator[Episodes]:
        assert n is not None
        made = noise(seed, first + n, self.parts)[first:]
        yield from (made[i : i + 3].to(device) for i in range(0, len(made), 3))


def write(path: Path, episodes: Episodes) -> Path:
    with Writer(path, "video") as writer:
        writer.append(episodes[:4])
        writer.append(episodes[4:])
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("batches") / "a.hdf5", noise(5, EPISODES))


def opened(kind: str, path: Path, **options: Any) -> Loader:
    common = {"batch": 6, "length": 4} | options
    if kind == "world":
        return open_loader(Acting(), **common)
    return open_loader(path, place=kind, **common)


def sliced(episodes: Episodes, seed: int, step: int, length: int, frames: int = FRAMES) -> Batch:
    """The batch of a step, one window after the other."""
    which, starts = Windows(len(episodes), frames, 6, seed=seed).at(step, length)
    rows = list(zip(which.tolist(), starts.tolist(), strict=True))
    assert episodes.actions is not None
    assert episodes.rewards is not None
    assert episodes.background is not None
    return Batch(
        video=torch.stack([episodes.video[e, s : s + length] for e, s in rows]),
        actions=torch.stack([episodes.actions[e, s : s + length] for e, s in rows]),
        rewards=torch.stack([episodes.rewards[e, s : s + length] for e, s in rows]),
        background=torch.stack([episodes.background[e] for e, _ in rows]),
    )


def equal(one: Batch, other: Batch) -> bool:
    """Whether two batches have the same parts with the same values."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in vars(one)]
    return all(a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)


@pytest.mark.parametrize("kind", ["resident", "streaming", "world"])
@settings(max_examples=8)
@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(1, FRAMES))
def test_a_batch_has_the_actions_rewards_and_backgrounds_of_its_windows(
    path: Path, kind: str, seed: int, step: int, length: int
) -> None:
    loader = opened(kind, path, seed=seed)
    assert equal(loader.batch(step, length), sliced(noise(5, EPISODES), seed, step, length))
    loader.close()


@pytest.mark.parametrize("kind", ["resident", "streaming", "world"])
@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_any_number_of_processes_shares_one_batch(path: Path, kind: str, ranks: int) -> None:
    parts = [opened(kind, path, rank=rank, ranks=ranks).batch(9) for rank in range(ranks)]
    assert equal(concatenate(parts), opened(kind, path).batch(9))


def test_a_step_on_the_device_gives_the_same_batch(path: Path) -> None:
    loader = opened("resident", path)
    assert equal(loader.batch(torch.tensor(7)), loader.batch(7))


@pytest.mark.parametrize("kind", ["resident", "streaming", "world"])
def test_only_the_first_episodes_and_frames_are_seen(path: Path, kind: str) -> None:
    loader = opened(kind, path, episodes=4, first_frames=6)
    expected = sliced(noise(5, EPISODES)[:4], 0, 3, 4, frames=6)
    assert equal(loader.batch(3), expected)


def test_a_pool_of_fresh_episodes_has_all_of_their_parts() -> None:
    loader = open_loader(Acting(), batch=6, length=4, fresh=Pool(episodes=4, chunk=2, uses=6))
    loader.prepare(0)
    seeds = [loader.seed_of(k) for k in range(2)]
    both = [noise(seed, 2) for seed in seeds]
    pool = Episodes(
        *(torch.cat([getattr(each, name) for each in both]) for name in ("video",)),
        **{name: torch.cat([getattr(each, name) for each in both]) for name in EXTRAS},
    )
    assert equal(loader.batch(0), sliced(pool, 0, 0, 4))
    assert equal(loader.batch(1), sliced(pool, 0, 1, 4))


@pytest.mark.parametrize("parts", [(), ("actions",), ("rewards", "background")])
@pytest.mark.parametrize("kind", ["resident", "streaming", "world", "fresh"])
def test_a_batch_has_no_part_that_the_data_have_not(
    kind: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    if kind == "fresh":
        pool = Pool(episodes=4, chunk=2, uses=6)
        batch = open_loader(Acting(parts), batch=6, length=4, fresh=pool).batch(0)
    elif kind == "world":
        batch = open_loader(Acting(parts), batch=6, length=4).batch(0)
    else:
        file = write(tmp_path / "a.hdf5", noise(5, EPISODES, parts))
        batch = open_loader(file, batch=6, length=4, place=kind).batch(0)
    assert {name for name in EXTRAS if getattr(batch, name) is not None} == set(parts)


def test_a_streamed_batch_stays_as_it_was(path: Path) -> None:
    loader = opened("streaming", path, ahead=2)
    first = loader.batch(0)
    for step in range(1, 7):
        loader.batch(step)
    assert equal(first, sliced(noise(5, EPISODES), 0, 0, 4))


def stored(path: Path, **options: Any) -> Path:
    """A file as others may write it."""
    whole = noise(5, EPISODES)
    assert whole.background is not None
    arrays = {
        "imgs": whole.video.permute(0, 1, 3, 4, 2),
        "actions": whole.actions,
        "rewards": whole.rewards,
        "backgrounds": whole.background.permute(0, 2, 3, 1),
    }
    kinds = options.pop("kinds", {})
    with h5py.File(path, "w") as file:
        for key, tensor in arrays.items():
            data = np.ascontiguousarray(tensor)
            data = data.astype(kinds.get(key, data.dtype))
            if "chunks" in options:
                options["chunks"] = (2, *data.shape[1:])
            file.create_dataset(key, data=data, **options)
    return path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": True},
        {"chunks": True, "compression": "gzip"},
        {"kinds": {"actions": "float64", "rewards": ">f4"}},
    ],
    ids=["contiguous", "chunks", "compressed", "other types"],
)
def test_a_file_may_hold_its_parts_in_any_way(options: dict[str, Any], tmp_path: Path) -> None:
    path = stored(tmp_path / "a.hdf5", **options)
    for place in ("resident", "streaming"):
        loader = open_loader(path, batch=6, length=4, place=place)
        for step in range(3):
            assert equal(loader.batch(step), sliced(noise(5, EPISODES), 0, step, 4))
    found = read(path)
    for name in EXTRAS:
        assert torch.equal(getattr(found, name), getattr(noise(5, EPISODES), name))


def test_whole_numbers_are_read_as_floats(tmp_path: Path) -> None:
    path = stored(tmp_path / "a.hdf5", kinds={"rewards": "int64"})
    batch = open_loader(path, batch=6, length=4, place="streaming").batch(0)
    assert batch.rewards is not None
    assert batch.rewards.dtype == torch.float32
    assert torch.equal(batch.rewards, torch.zeros(6, 4))


@pytest.mark.parametrize("name", EXTRAS)
def test_data_with_other_actions_rewards_or_backgrounds_are_other_data(
    name: str, path: Path, tmp_path: Path
) -> None:
    whole = noise(5, EPISODES)
    changed = getattr(whole, name).clone()
    changed[3].view(-1)[-1] += 1
    other = write(tmp_path / "b.hdf5", replace(whole, **{name: changed}))
    without = write(tmp_path / "c.hdf5", replace(whole, **{name: None}))
    state = open_loader(path, batch=6, length=4).state_dict()
    with pytest.raises(UserError, match="its checksum is"):
        open_loader(other, batch=6, length=4).load_state_dict(state)
    with pytest.raises(UserError, match="the saved state belongs to other data"):
        open_loader(without, batch=6, length=4).load_state_dict(state)


def test_the_state_of_data_without_them_does_not_speak_of_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", noise(5, EPISODES, ()))
    known = {"step", "seed", "batch", "episodes", "frames"}
    assert open_loader(path, batch=6, length=4).state_dict().keys() == known | {
        *("height", "width", "checksum")
    }
    state = open_loader(Acting(()), batch=6, length=4).state_dict()
    assert state.keys() == known | {"world", "world_seed"}


def test_the_checksum_of_pictures_alone_is_as_it_always_was(tmp_path: Path) -> None:
    video = torch.arange(2 * 3 * 3 * 4 * 4).reshape(2, 3, 3, 4, 4).to(torch.uint8)
    with Writer(tmp_path / "a.hdf5", "video") as writer:
        writer.append(Episodes(video))
    crc = 0
    for i in range(16):
        frame = video[i * 2 // 16, i * 3 // 16].permute(1, 2, 0).contiguous()
        crc = zlib.crc32(frame.numpy().data, crc)
    assert FrameFile(tmp_path / "a.hdf5").checksum() == crc


def test_a_world_whose_episodes_differ_in_their_parts_is_refused() -> None:
    class Moody(Acting):
        def episodes(self, *args: Any, **settings: Any) -> Iterator[Episodes]:
            for i, part in enumerate(super().episodes(*args, **settings)):
                yield replace(part, rewards=None) if i else part

    with pytest.raises(UserError, match="acting: its episodes have different fields"):
        open_loader(Moody(), batch=6, length=4)


def test_an_evaluation_looks_at_the_actions_of_its_frames() -> None:
    rules = Protocol("short", 2, 3, ("pixels",))
    short = cut(noise(5, 2), rules)
    assert short.actions is not None
    assert short.rewards is not None
    assert torch.equal(short.actions, noise(5, 2).actions[:, :5])
    assert torch.equal(short.rewards, noise(5, 2).rewards[:, :5])


def test_info_says_which_parts_a_file_has(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "info", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"actions: 3 numbers a frame", "rewards: one a frame", "backgrounds: one each"} <= {
        *lines
    }
    assert "key actions: float32 (7, 12, 3)" in lines
