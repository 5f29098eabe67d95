"""Types of the public API. `make lint` checks this file, and nothing runs it."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, assert_type

import torch
from torch import Tensor

import gswm
from gswm.studio.notebook import StudioFrame


def use(path: str) -> None:
    model = gswm.load("two-layer", device="cuda")
    assert_type(model, gswm.WorldModel[gswm.ModelConfig])
    assert_type(gswm.build("maze"), gswm.WorldModel[gswm.ModelConfig])
    assert_type(model.cfg.num_objects, int)
    assert_type(model.recipe, gswm.Recipe | None)
    video = gswm.read_video(path, model.image_size, fps=10)
    assert_type(video, Tensor)
    film = gswm.open_video(path, model.image_size, fit="crop", region=(0, 0, 64, 64))
    assert_type(film, gswm.Film)
    assert_type(film.placement, gswm.Placement)
    assert_type(film.read(), Tensor)
    track = model.infer(video, discover="first")
    assert_type(track, gswm.Track)
    assert_type(track.xy, Tensor)
    assert_type(track.draw(video).shape, tuple[Any, ...])
    assert_type(track.save("track.csv"), None)
    assert_type(track.save("track.txt", film), None)
    assert_type(track.to_frame(), dict[str, list[int | float]])
    tracks = gswm.track(path, model, fps=10, region=(0, 0, 64, 64))
    assert_type(tracks, gswm.VideoTracks)
    assert_type(tracks.boxes.x.shape, tuple[Any, ...])
    assert_type(tracks.to_frame(), dict[str, list[int | float]])
    assert_type(gswm.track(path).save("film.csv"), None)
    assert_type(gswm.save("mine.safetensors", model), None)
    episodes = gswm.world("maze").episodes(seed=1, n=10)
    result = gswm.evaluate(model, episodes, "gswm-maze-5")
    assert_type(result, gswm.Result)
    assert_type(result.scores, dict[str, float])
    assert_type(gswm.studio(model, video), StudioFrame)


def edit(model: gswm.WorldModel[Any], track: gswm.Track) -> None:
    state = track.state_at(9).move(id=2, xy=(0.3, -0.1)).remove(1).change(2, hw=(0.1, 0.2))
    assert_type(state, gswm.State | Any)
    future = model.imagine_from(state, steps=5, futures=16)
    assert_type(future.futures, int | None)
    assert_type(future.past, gswm.Track | None)
    state.mov(id=2, xy=(0.3, -0.1))  # pyright: ignore[reportAttributeAccessIssue]


def look_up() -> None:
    assert_type(gswm.recipe("maze").model, gswm.ModelConfig)
    assert_type(gswm.world("maze").episodes(seed=1, n=10), Iterator[gswm.Episodes])
    _ = gswm.nothing  # pyright: ignore[reportAttributeAccessIssue]


@dataclass(frozen=True)
class MyConfig(gswm.ModelConfig):
    kind: ClassVar[str] = "mine"
    width: int = 8


@dataclass(frozen=True)
class MyState(gswm.State):
    xy: Tensor


class MyModel(gswm.WorldModel[MyConfig]):
    def loss(
        self, batch: gswm.Batch, noise: gswm.Noise, step: Tensor, stage: gswm.Stage
    ) -> gswm.Loss:
        assert_type(self.cfg.width, int)
        return gswm.Loss.of({"error": gswm.as_float(batch.video).flatten(1).mean(dim=1)}, {})

    def perceive(
        self,
        video: Tensor,
        *,
        discover: str,
        render: bool,
        actions: Tensor | None,
        background: Tensor | None,
    ) -> gswm.Track:
        raise NotImplementedError

    def rollout(
        self,
        state: MyState,
        steps: int,
        generator: torch.Generator | None,
        *,
        render: bool,
        actions: Tensor | None,
    ) -> gswm.Track:
        raise NotImplementedError


class MyWorld(gswm.World):
    name = "mine"
    num_frames = 10
    image_size = 64
    num_objects = 1
    layout = "video"

    def __init__(self) -> None:
        few = gswm.Split(seed=0, episodes=10)
        self.splits = {"train": few, "val": few, "test": few}

    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = 1 << 30,
        first: int = 0,
    ) -> Iterator[gswm.Episodes]:
        yield gswm.Episodes(torch.zeros(1, 10, 3, 64, 64, dtype=torch.uint8))


gswm.register(gswm.ModelEntry(MyConfig, MyModel))
gswm.register_world(MyWorld)
