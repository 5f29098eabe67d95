"""Models, worlds and uploads, by name: the page can name what is listed here and nothing else."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.shapes import Frame
from gswm.data.episode import Episodes
from gswm.data.importing.videos import Cut
from gswm.data.worlds import registry as worlds
from gswm.fast.loading import load
from gswm.models.base import AnyFrame, WorldModel
from gswm.studio.protocol import MOST_EPISODES
from gswm.weights.files import read_header
from gswm.weights.finding import ANY_VIDEO, find, shipped

MOST_UPLOADS = 8
STEPS = 40
"""Frames that are imagined at first, where the world has so many."""
MOST_EPISODES_KEPT = 16
MAKE = 8
"""Episodes of a world that are made at once: the next ones are then there."""


@dataclass(frozen=True)
class Entry:
    """A model that the page can choose."""

    load: Callable[[], WorldModel[Any]]
    world: str
    """On which it is shown first."""
    given: int
    steps: int
    """How many frames are given, and imagined, at first."""
    line: str
    """What is said about it."""
    videos: dict[str, Any] = field(default_factory=dict)
    """How the videos that it was trained on were cut, where they were somebody's own."""


class Catalog:
    """All that can be opened. Every method may be called from any thread."""

    def __init__(self, device: str | torch.device = "cpu", video_fps: float | None = None) -> None:
        """`video_fps` are taken of uploads, 0 for every frame; as in the training if not given."""
        self.device, self.video_fps = torch.device(device), video_fps
        self.models: dict[str, Entry] = {}
        self.sources: dict[str, Callable[[int, int], Episodes]] = {}
        """An episode by its number, in frames of so many pixels where the source can draw them."""
        self.own: set[str] = set()
        """Sources of videos of the user's, in which objects may enter at any time."""
        self.uploads: OrderedDict[str, UInt8[Tensor, "1 time 3 height width"]] = OrderedDict()
        self.backgrounds: OrderedDict[tuple[str, int, str], Frame | None] = OrderedDict()
        """Those of the user's videos, by source, episode and model."""
        self.loaded: dict[str, WorldModel[Any]] = {}
        self.episodes: OrderedDict[tuple[str, int, int], Episodes] = OrderedDict()
        """By source, size and number."""
        self.lock = threading.RLock()

    def add_weights(self, name: str, path: str) -> str:
        """A trained model: a run, a file of weights, or one that ships."""
        file = find(path)
        header = read_header(file)
        recipe, videos = header["recipe"], header["about"].get("videos", {})
        line = f"{recipe.name}, trained on {recipe.data.world}"
        world, given = recipe.data.world, recipe.data.given
        frames = worlds.WORLDS[world].num_frames if world in worlds.WORLDS else given + STEPS
        steps = max(1, min(STEPS, frames - given))
        self.models[name] = Entry(
            lambda: load(file, self.device), world, given, steps, line, videos
        )
        return name

    def add_shipped(self) -> None:
        """Every model and every world that comes with the package."""
        for name in shipped():
            self.add_weights(name, name)
        for name in worlds.WORLDS:
            self.add_world(name)

    def add_model(self, name: str, model: WorldModel[Any], world: str, given: int) -> None:
        """A model that is in memory."""
        self.models[name] = Entry(lambda: model, world, given, STEPS, type(model).__name__)

    def add_world(self, name: str) -> None:
        """The test episodes of a world."""
        world = worlds.world(name)
        self.sources[name] = lambda index, size: self.made(world.resized(size), index)

    def add_source(
        self, name: str, source: Callable[[int], Episodes], *, own: bool = False
    ) -> None:
        """Episodes that the user named when the studio was started; `own` if of their videos."""
        self.sources[name] = lambda index, _: source(index)
        if own:
            self.own.add(name)

    def is_own(self, name: str) -> bool:
        """Whether a source is a video of the user's: an upload, or one that was imported."""
        return name in self.uploads or name in self.own

    def add_upload(self, video: UInt8[Tensor, "1 time 3 height width"]) -> str:
        """A video from the page; the oldest goes when there are too many."""
        with self.lock:
            name = f"upload-{secrets.token_hex(8)}"
            self.uploads[name] = video
            while len(self.uploads) > MOST_UPLOADS:
                self.uploads.popitem(last=False)
            return name

    def model(self, name: str) -> WorldModel[Any]:
        """A model, loaded once."""
        if name not in self.models:
            raise UserError(f"there is no model '{name[:60]}' here")
        with self.lock:
            if name not in self.loaded:
                self.loaded[name] = self.models[name].load()
            return self.loaded[name]

    def for_video(self, name: str) -> str:
        """Choose the model for a video from the page, on which `name` is open.

        A model of a world, which knows nothing else, gives way to the weights for any video.
        """
        of_world = self.models[name].world in worlds.WORLDS if name in self.models else False
        if not of_world or ANY_VIDEO not in self.models or self.model(name).cfg.takes_background:
            return name
        return ANY_VIDEO

    def cut(self, name: str) -> Cut:
        """How a video is cut for a model."""
        size = self.model(name).image_size
        return Cut.like(self.models[name].videos, size, self.video_fps)

    def episode(self, name: str, index: int, size: int) -> Episodes:
        """One episode of a world in frames of `size` pixels, of a file, or an upload."""
        if name in self.uploads:
            return Episodes(self.uploads[name])
        if name not in self.sources:
            lost = "this video is no longer here: open it again"
            raise UserError(
                lost if name.startswith("upload-") else f"there is no world '{name[:60]}' here"
            )
        with self.lock:
            if (name, size, index) not in self.episodes:
                self.keep(name, size, index, self.sources[name](index, size))
            return self.episodes[name, size, index]

    def background(self, model: str, name: str, index: int) -> AnyFrame | None:
        """The background of an episode, for a model that takes one.

        That of a user's video comes from all of its frames, once.
        """
        episode = self.episode(name, index, self.model(model).image_size)
        if episode.background is not None or not self.is_own(name):
            return episode.background
        with self.lock:
            key = (name, index, model)
            if key not in self.backgrounds:
                self.backgrounds[key] = self.model(model).background_for(episode.video)
                while len(self.backgrounds) > MOST_UPLOADS:
                    self.backgrounds.popitem(last=False)
            return self.backgrounds[key]

    def keep(self, name: str, size: int, index: int, episode: Episodes) -> None:
        """Remember an episode, and forget the oldest."""
        self.episodes[name, size, index] = episode
        while len(self.episodes) > MOST_EPISODES_KEPT:
            self.episodes.popitem(last=False)

    def made(self, world: worlds.World, index: int) -> Episodes:
        """An episode of a world; those that were made on the way to it are kept."""
        number, seed = min(index + MAKE, MOST_EPISODES), world.splits["test"].seed
        at, found = 0, None
        for chunk in world.episodes(seed, number):
            for i in range(len(chunk)):
                if at + i == index:
                    found = chunk[i : i + 1]
                elif at + i > index - MAKE // 2:
                    self.keep(world.name, world.image_size, at + i, chunk[i : i + 1])
            at += len(chunk)
        if found is None:
            raise UserError(f"{world.name} has no episode {index}")
        return found

    def listed(self) -> dict[str, Any]:
        """What the page shows to choose from."""
        models = [
            {"name": name}
            | {key: getattr(entry, key) for key in ("world", "given", "steps", "line")}
            for name, entry in self.models.items()
        ]
        return {"models": models, "worlds": list(self.sources), "episodes": MOST_EPISODES}
