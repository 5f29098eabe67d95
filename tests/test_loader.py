"""Training batches: a seed gives the same windows from any source and in any process."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gswm.bench.windows import bench_windows
from gswm.core.errors import UserError
from gswm.data.batches import loader as loader_module
from gswm.data.batches.loader import Pool, open_loader
from gswm.data.batches.resident import Fresh, Loader, Resident
from gswm.data.batches.streaming import Streaming
from gswm.data.batches.windows import Windows
from gswm.data.episode import Episodes
from gswm.data.storage.frame_file import FrameFile
from gswm.data.storage.writer import Writer
from gswm.data.worlds.base import MEMORY, Split, World

EPISODES, FRAMES, SIZE = 7, 12, 8
LAYOUTS = ["ours", "contiguous", "compressed", "small chunks"]


class Noise(World):
    """A world of random pictures, in chunks of three."""

    name = "noise"
    num_frames = FRAMES
    image_size = SIZE
    num_objects = 1
    layout = "video"

    def __init__(self) -> None:
        self.splits = {"train": Split(5, EPISODES), "val": Split(6, 2)}
        self.made: list[int] = []

    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = MEMORY,
        first: int = 0,
    ) -> Iterator[Episodes]:
        assert n is not None
        self.made.append(seed)
        for begin in range(first, first + n, 3):
            parts = [
                np.random.RandomState([seed, i]).randint(256, size=(FRAMES, 3, SIZE, SIZE))
                for i in range(begin, min(begin + 3, first + n))
            ]
            yield Episodes(torch.tensor(np.stack(parts), dtype=torch.uint8, device=device))


def whole(world: Noise, seed: int, n: int) -> torch.Tensor:
    return torch.cat([part.video for part in world.episodes(seed, n)])


def write(path: Path, video: torch.Tensor, layout: str) -> Path:
    if layout == "ours":
        with Writer(path, "video") as writer:
            writer.append(Episodes(video[:3]))
            writer.append(Episodes(video[3:]))
        return path
    options = {
        "contiguous": {},
        "compressed": {"chunks": (1, FRAMES, SIZE, SIZE, 3), "compression": "gzip"},
        "small chunks": {"chunks": (2, 5, SIZE, SIZE, 3)},
    }
    with h5py.File(path, "w", userblock_size=512) as file:
        data = video.permute(0, 1, 3, 4, 2).contiguous().numpy()
        file.create_dataset("imgs", data=data, **options[layout])
    return path


@pytest.fixture
def video() -> torch.Tensor:
    return whole(Noise(), 5, EPISODES)


@pytest.fixture
def path(tmp_path: Path, video: torch.Tensor) -> Path:
    return write(tmp_path / "noise.hdf5", video, "ours")


def mixed(x: int) -> int:
    """SplitMix64's mixing function, in whole numbers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def drawn(seed: int, step: int, row: int, which: int) -> int:
    key = mixed((mixed(seed % 2**64) + 2 * row + which) % 2**64)
    return mixed((key + step * 0x9E3779B97F4A7C15) % 2**64) % 2**63


def sliced(video: torch.Tensor, seed: int, step: int, batch: int, length: int) -> torch.Tensor:
    """The batch of a step, one window after the other."""
    rows = []
    for row in range(batch):
        episode = drawn(seed, step, row, 0) % len(video)
        start = drawn(seed, step, row, 1) % (video.shape[1] - length + 1)
        rows.append(video[episode, start : start + length])
    return torch.stack(rows)


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**40),
    st.integers(1, FRAMES),
    st.booleans(),
)
def test_windows_are_the_stated_function(
    seed: int, step: int, length: int, as_tensor: bool
) -> None:
    windows = Windows(10_000, FRAMES, 4, seed=seed)
    episode, start = windows.at(torch.tensor(step) if as_tensor else step, length)
    assert episode.tolist() == [drawn(seed, step, row, 0) % 10_000 for row in range(4)]
    assert start.tolist() == [drawn(seed, step, row, 1) % (FRAMES - length + 1) for row in range(4)]


def test_windows_are_uniform_over_episodes_and_starts_together() -> None:
    windows = Windows(5, 10, 16, seed=3)
    counts = torch.zeros(5, 7)
    steps = 4000
    for step in range(steps):
        episode, start = windows.at(step, 4)
        counts.index_put_((episode, start), torch.ones(16), accumulate=True)
    expected = 16 * steps / counts.numel()
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert 15 < chi_squared < 66  # 34 degrees of freedom: all but 0.2 % at either end


def test_rows_steps_and_seeds_are_independent() -> None:
    def u(seed: int) -> torch.Tensor:
        windows = Windows(1 << 20, 1, 8, seed=seed)
        return torch.stack([windows.at(step, 1)[0] for step in range(2000)], dim=1).double()

    one, other = u(0), u(1)
    series = [one[0], one[1], other[0], one[0].roll(1), one[0].roll(2)]
    correlation = torch.corrcoef(torch.stack(series)) - torch.eye(len(series))
    assert correlation.abs().max() < 0.1


@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_processes_share_the_rows_of_one_batch(ranks: int) -> None:
    together = Windows(100, 20, 6, seed=1).at(9, 5)
    apart = [Windows(100, 20, 6, seed=1, rank=r, ranks=ranks).at(9, 5) for r in range(ranks)]
    for i in range(2):
        assert torch.cat([part[i] for part in apart]).equal(together[i])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", [1, 5, FRAMES])
def test_resident_and_streaming_batches_are_the_file_sliced(
    tmp_path: Path, video: torch.Tensor, layout: str, length: int
) -> None:
    path = write(tmp_path / "noise.hdf5", video, layout)
    for place in ("resident", "streaming"):
        loader = open_loader(path, batch=4, length=length, seed=2, place=place)
        for step, batch in enumerate(islice(loader, 5)):
            assert batch.video.equal(sliced(video, 2, step, 4, length))


def test_only_files_in_single_pieces_are_read_as_bytes(tmp_path: Path, video: torch.Tensor) -> None:
    files = [FrameFile(write(tmp_path / f"{name}.hdf5", video, name)) for name in LAYOUTS]
    assert [file.direct for file in files] == [True, True, False, False]


def test_a_world_is_resident_and_equals_its_file(path: Path) -> None:
    ours = open_loader(Noise(), batch=4, length=5)
    for step in range(4):
        expected = open_loader(path, batch=4, length=5).batch(step)
        assert ours.batch(step).video.equal(expected.video)


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("ahead", [1, 2, 9])
def test_any_number_of_workers_gives_the_same_batches(
    path: Path, video: torch.Tensor, workers: int, ahead: int
) -> None:
    loader = open_loader(path, batch=3, length=4, place="streaming", workers=workers, ahead=ahead)
    for step, batch in enumerate(islice(loader, 25)):
        assert batch.video.equal(sliced(video, 0, step, 3, 4))


def test_streaming_follows_jumps_and_changes_of_length(path: Path, video: torch.Tensor) -> None:
    loader = open_loader(path, batch=3, length=4, place="streaming", ahead=4)
    for step, length in [(0, 4), (1, 4), (7, 4), (2, 4), (3, 9), (4, 9), (4, 2), (5, None)]:
        assert loader.batch(step, length).video.equal(sliced(video, 0, step, 3, length or 4))


def test_a_streamed_batch_stays_as_it_was(path: Path) -> None:
    loader = open_loader(path, batch=3, length=4, place="streaming", ahead=2)
    first = next(loader).video
    kept = first.clone()
    list(islice(loader, 6))
    assert first.equal(kept)


def test_only_the_first_episodes_and_frames_are_seen(path: Path, video: torch.Tensor) -> None:
    for place in ("resident", "streaming"):
        loader = open_loader(path, batch=4, length=3, episodes=4, first_frames=6, place=place)
        for step in range(6):
            assert loader.batch(step).video.equal(sliced(video[:4, :6], 0, step, 4, 3))


def test_only_the_episodes_of_the_split_are_seen(tmp_path: Path, video: torch.Tensor) -> None:
    path = tmp_path / "mixed.hdf5"
    with Writer(path, "video") as writer:
        for i, split in enumerate(["train", "val", "train", "test", "train", "val", "train"]):
            writer.append(Episodes(video[i : i + 1]), split=split)
    for place in ("resident", "streaming"):
        loader = open_loader(path, batch=4, length=3, place=place)
        for step in range(4):
            assert loader.batch(step).video.equal(sliced(video[::2], 0, step, 4, 3))


def test_videos_are_streamed_where_they_do_not_fit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = EPISODES * FRAMES * SIZE * SIZE * 3
    kinds = []
    for free in (size, 2 * size):
        monkeypatch.setattr(loader_module, "free_memory", lambda _, free=free: free)
        kinds.append(type(open_loader(path, batch=2, length=2)))
    assert kinds == [Streaming, Resident]
    monkeypatch.setattr(loader_module, "free_memory", lambda _: size)
    with pytest.raises(UserError, match=r"noise: 7 episodes take .* --data\.episodes 4"):
        open_loader(Noise(), batch=2, length=2)


def every_kind(path: Path, **options: int) -> list[Loader]:
    common = {"batch": 4, "length": 3} | options
    return [
        open_loader(path, place="resident", **common),
        open_loader(path, place="streaming", **common),
        open_loader(Noise(), **common),
        open_loader(Noise(), fresh=Pool(episodes=4, chunk=2, uses=4), **common),
    ]


@pytest.mark.parametrize("kind", range(4))
def test_a_resumed_run_sees_the_same_windows(path: Path, kind: int) -> None:
    loader = every_kind(path, seed=8)[kind]
    list(islice(loader, 7))
    state = json.loads(json.dumps(loader.state_dict()))
    expected = list(islice(loader, 7))

    resumed = every_kind(path, seed=8)[kind]
    resumed.load_state_dict(state)
    assert resumed.step == 7
    for ours, theirs in zip(islice(resumed, 7), expected, strict=True):
        assert ours.video.equal(theirs.video)


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("other", [{"seed": 1}, {"batch": 2}, {"first_frames": 9}])
def test_a_state_of_other_data_is_refused(path: Path, kind: int, other: dict[str, int]) -> None:
    state = every_kind(path)[kind].state_dict()
    loader = every_kind(path, **other)[kind]
    with pytest.raises(UserError, match="the saved state belongs to other data") as caught:
        loader.load_state_dict(state)
    assert len(str(caught.value).splitlines()) == 1
    assert loader.step == 0


def test_a_state_of_other_pictures_or_another_kind_or_without_a_step_is_refused(
    tmp_path: Path, path: Path, video: torch.Tensor
) -> None:
    loader = open_loader(path, batch=4, length=3)
    other = open_loader(write(tmp_path / "b.hdf5", 255 - video, "ours"), batch=4, length=3)
    with pytest.raises(UserError, match="its checksum is"):
        loader.load_state_dict(other.state_dict())
    with pytest.raises(UserError, match="belongs to other data"):
        loader.load_state_dict(open_loader(Noise(), batch=4, length=3).state_dict())
    for step in (None, -1, 2.5, "3"):
        with pytest.raises(UserError, match="step is"):
            loader.load_state_dict(loader.state_dict() | {"step": step})


def test_processes_save_one_state(path: Path) -> None:
    states = [open_loader(path, batch=4, length=3, rank=r, ranks=2).state_dict() for r in range(2)]
    assert states == [open_loader(path, batch=4, length=3).state_dict()] * 2


def pool(world: Noise, **options: int) -> Fresh:
    loader = open_loader(
        world, batch=4, length=3, fresh=Pool(episodes=6, chunk=2, uses=4), **options
    )
    assert isinstance(loader, Fresh)
    return loader


def videos(loader: Resident) -> torch.Tensor:
    assert loader.held is not None
    return loader.held.video


def test_the_pool_at_a_step_does_not_depend_on_the_way_there() -> None:
    walked, jumped = pool(Noise()), pool(Noise())
    for step in range(0, 23):
        batch = walked.batch(step)
    assert jumped.batch(22).video.equal(batch.video)
    assert videos(jumped).equal(videos(walked))
    assert jumped.batch(3).video.equal(pool(Noise()).batch(3).video)


def test_the_pool_holds_whole_chunks_of_the_world_in_turn() -> None:
    world = Noise()
    loader = pool(world)
    assert loader.every == 2
    for step in range(9):
        loader.prepare(step)
        chunks = range(step // 2, step // 2 + 3)
        for k in chunks:
            slot = k % 3 * 2
            expected = whole(Noise(), loader.seed_of(k), 2).permute(0, 1, 3, 4, 2)
            assert videos(loader)[slot : slot + 2].equal(expected)
    assert world.made == [loader.seed_of(k) for k in range(7)]


@given(st.integers(1, 20_000))
def test_a_pool_is_of_about_so_many_episodes_in_whole_chunks(episodes: int) -> None:
    pool = Pool.of(episodes)
    assert 0 < pool.episodes <= episodes < pool.episodes + 8
    assert pool.episodes % pool.chunk == 0


def test_fresh_episodes_never_come_again_and_are_of_no_split() -> None:
    world = Noise()
    loader = pool(world, seed=11)
    for step in range(60):
        loader.batch(step)
    assert len(set(world.made)) == len(world.made) == 32
    assert all(2**31 <= seed < 2**32 for seed in world.made)
    assert not set(world.made) & {pool(Noise(), seed=12).seed_of(k) for k in range(40)}


def test_a_chunk_that_failed_is_made_again() -> None:
    class Failing(Noise):
        fail = True

        def episodes(self, *args, **kwargs) -> Iterator[Episodes]:
            if self.fail and len(self.made) == 2:
                raise UserError("no more")
            return super().episodes(*args, **kwargs)

    world = Failing()
    loader = pool(world)
    with pytest.raises(UserError, match="no more"):
        loader.batch(0)
    world.fail = False
    assert loader.batch(0).video.equal(pool(Noise()).batch(0).video)


@pytest.mark.parametrize("layout", ["ours", "contiguous"])
def test_an_error_of_a_worker_is_the_callers_in_one_line(
    tmp_path: Path, video: torch.Tensor, layout: str
) -> None:
    path = write(tmp_path / "noise.hdf5", video, layout)
    loader = open_loader(path, batch=4, length=FRAMES, place="streaming")
    loader.batch(0)
    with path.open("r+b") as file:
        file.truncate(2000)
    with pytest.raises(UserError, match=r"noise.hdf5: cannot read episode \d: .*truncated") as said:
        list(islice(loader, 20))
    assert len(str(said.value).splitlines()) == 1


def test_closing_a_loader_ends_its_threads(path: Path) -> None:
    loader = open_loader(path, batch=4, length=3, place="streaming")
    assert isinstance(loader, Streaming)
    loader.batch(0)
    loader.close()
    with pytest.raises(RuntimeError):
        loader.batch(1)


BAD = {
    "windows of 13 frames do not fit episodes of 12": {"length": 13},
    "windows of 0 frames do not fit": {"length": 0},
    "windows of 7 frames do not fit episodes of 6": {"length": 7, "first_frames": 6},
    "a batch of 4 does not divide among 3 processes": {"ranks": 3},
    "rank 2 is not within 0 to 1": {"ranks": 2, "rank": 2},
    "batch is 0": {"batch": 0},
    "--data.first-frames is 13; it must be from 1 to 12": {"first_frames": 13},
    "8": {"episodes": 8},
}


@pytest.mark.parametrize("said", BAD)
@pytest.mark.parametrize("place", ["resident", "streaming", "world"])
def test_what_cannot_be_loaded_is_refused_in_one_line(path: Path, said: str, place: str) -> None:
    options = {"batch": 4, "length": 3} | BAD[said]
    source, where = (Noise(), {}) if place == "world" else (path, {"place": place})
    with pytest.raises(UserError, match=said) as caught:
        open_loader(source, **where, **options)
    assert len(str(caught.value).splitlines()) == 1


def test_what_no_source_can_do_is_refused_in_one_line(path: Path) -> None:
    with pytest.raises(UserError, match="noise: only files can be streamed"):
        open_loader(Noise(), batch=4, length=3, place="streaming")
    with pytest.raises(UserError, match="a file cannot provide fresh episodes"):
        open_loader(path, batch=4, length=3, fresh=Pool())
    with pytest.raises(UserError, match="cannot be renewed by 4"):
        open_loader(Noise(), batch=4, length=3, fresh=Pool(episodes=6, chunk=4))
    with pytest.raises(UserError, match="needs the step as an int"):
        open_loader(path, batch=4, length=3, place="streaming").batch(torch.tensor(0))
    with pytest.raises(UserError, match="both must be at least 1"):
        open_loader(path, batch=4, length=3, place="streaming", workers=0)
    with pytest.raises(UserError, match="windows of 13 frames"):
        open_loader(path, batch=4, length=3).batch(0, 13)


def test_progress_is_told_of_every_episode(path: Path) -> None:
    for source in (path, Noise()):
        told: list[int] = []
        frame = FRAMES * SIZE * SIZE * 3
        open_loader(source, batch=2, length=2, memory=3 * frame, progress=told.append)
        assert told == [3, 6, 7]


def test_the_benchmark_gives_a_figure_for_every_way_and_batch() -> None:
    figures = bench_windows("cpu", batches=(2,), episodes=3, seconds=0.01)
    assert figures.keys() == {"resident_2", "streaming_2"}
    assert min(figures.values()) > 0
