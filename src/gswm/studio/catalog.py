"""Models, worlds and uploads by name; the page can open only these."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.shapes import Frame
from gswm.core.words import model_name
from gswm.data.episode import Episodes
from gswm.data.importing.videos import Cut
from gswm.data.worlds import registry as worlds
from gswm.fast.loading import load
from gswm.models.base import AnyFrame, WorldModel
from gswm.studio.perceiving import InferredChunks
from gswm.studio.protocol import MOST_EPISODES
from gswm.weights.files import read_header
from gswm.weights.finding import ANY_VIDEO, find, installed

Made = TypeVar("Made")

MOST_UPLOADS = 8
MOST_MADE = 2
"""Number of items to load or generate in parallel."""
STEPS = 40
"""Initial number of imagined frames, if the world has as many."""
MOST_EPISODES_KEPT = 16


@dataclass(frozen=True)
class Entry:
    """A model that the page can choose."""

    load: Callable[[], WorldModel[Any]]
    world: str
    """The world to show first."""
    given: int
    steps: int
    """Initial numbers of given and imagined frames."""
    line: str
    """A description."""
    videos: dict[str, Any] = field(default_factory=dict)
    """Import settings of the training videos, for models of users' videos."""
    group: str = "Your own"
    """The heading under which it is listed."""
    header: dict[str, Any] | None = None
    """The header of its weights file; None for a model in memory."""


@dataclass(frozen=True)
class PreparedView:
    """A model and an episode to show."""

    model: WorldModel[Any]
    episodes: Episodes
    background: AnyFrame | None
    """The background of the episode, if the model needs one."""


class Catalog:
    """Everything that can be opened. All methods are thread-safe.

    Each item is loaded or created once; only callers that need the same item wait for it.
    """

    def __init__(self, device: str | torch.device = "cpu", video_fps: float | None = None) -> None:
        """`video_fps` is the frame rate of uploads; 0 uses every frame, None the training rate."""
        self.device, self.video_fps = torch.device(device), video_fps
        self.models: dict[str, Entry] = {}
        self.sources: dict[str, Callable[[int, int], Episodes]] = {}
        """Functions that return an episode by index and frame size, by source."""
        self.own: set[str] = set()
        """Sources of the user's own videos, in which objects may enter at any time."""
        self.uploads: OrderedDict[str, UInt8[Tensor, "1 time 3 height width"]] = OrderedDict()
        self.backgrounds: OrderedDict[tuple[str, int, str], Frame | None] = OrderedDict()
        """Backgrounds of the user's videos, by source, episode and model."""
        self.loaded: dict[str, WorldModel[Any]] = {}
        self.episodes: OrderedDict[tuple[str, int, int], Episodes] = OrderedDict()
        """Episodes by source, size and index."""
        self.inferred = InferredChunks()
        self.lock = threading.Lock()
        """Held during lookups, but never while an item is being created."""
        self.making: dict[tuple[str, Any], threading.Lock] = {}
        self.pool = ThreadPoolExecutor(MOST_MADE, "gswm-studio-catalog", set_up_thread)

    def add_weights(self, name: str, path: str, group: str = Entry.group) -> str:
        """Add a trained model: a run folder, a weights file, or the name of a shipped model."""
        file = find(path)
        header = read_header(file)
        recipe, videos = header["recipe"], header["about"].get("videos", {})
        line = f"{recipe.name}, trained on {recipe.data.world}"
        world, given = recipe.data.world, recipe.data.given
        frames = worlds.WORLDS[world].num_frames if world in worlds.WORLDS else given + STEPS
        steps = max(1, min(STEPS, frames - given))
        self.models[name] = Entry(
            lambda: load(file, self.device), world, given, steps, line, videos, group, header
        )
        return name

    def add_installed(self) -> None:
        """Add every installed or cached model, and every world."""
        for name, file in installed().items():
            kind = read_header(file)["recipe"].model.kind.upper()
            self.add_weights(name, str(file), model_name(kind))
        for name in worlds.WORLDS:
            self.add_world(name)

    def add_model(self, name: str, model: WorldModel[Any], world: str, given: int) -> None:
        """Add a model in memory."""
        self.models[name] = Entry(lambda: model, world, given, STEPS, type(model).__name__)

    def add_world(self, name: str) -> None:
        """Add the test episodes of a world."""
        world = worlds.world(name)
        self.sources[name] = lambda index, size: self.made(world.resized(size), index)

    def add_source(
        self, name: str, source: Callable[[int], Episodes], *, own: bool = False
    ) -> None:
        """Add episodes that the user specified at the start; `own` for the user's own videos."""
        self.sources[name] = lambda index, _: source(index)
        if own:
            self.own.add(name)

    def is_own(self, name: str) -> bool:
        """Whether a source is the user's own video, uploaded or imported."""
        return name in self.uploads or name in self.own

    def add_upload(self, video: UInt8[Tensor, "1 time 3 height width"]) -> str:
        """Add an uploaded video; the oldest one is dropped if there are too many."""
        with self.lock:
            name = f"upload-{secrets.token_hex(8)}"
            self.uploads[name] = video
            while len(self.uploads) > MOST_UPLOADS:
                self.uploads.popitem(last=False)
            return name

    def once(
        self,
        kind: str,
        kept: MutableMapping[Any, Made],
        key: Any,
        make: Callable[[], Made],
        most: int,
    ) -> Made:
        """Look up or create an item; the oldest items beyond `most` are dropped."""
        with self.lock:
            if key in kept:
                return kept[key]
            made_here = self.making.setdefault((kind, key), threading.Lock())
        with made_here:
            with self.lock:
                if key in kept:
                    return kept[key]
            try:
                made = make()
                with self.lock:
                    kept[key] = made
                    for oldest in list(kept)[: max(0, len(kept) - most)]:
                        del kept[oldest]
            finally:
                with self.lock:
                    self.making.pop((kind, key), None)
            return made

    def model(self, name: str) -> WorldModel[Any]:
        """A model, loaded once."""
        if name not in self.models:
            raise UserError(f"there is no model '{name[:60]}'")
        return self.once("model", self.loaded, name, self.models[name].load, len(self.models))

    def chunks_of(self, name: str) -> InferredChunks | None:
        """Shared inferred chunks; None for a model in memory, whose weights may change."""
        return None if self.models[name].header is None else self.inferred

    def prepare(self, model: str, name: str, index: int) -> Future[PreparedView]:
        """Load everything in another thread, since this may take seconds."""

        def prepared() -> PreparedView:
            loaded, background = self.model(model), self.background(model, name, index)
            return PreparedView(loaded, self.episode(name, index, loaded.image_size), background)

        return self.pool.submit(prepared)

    def for_video(self, name: str) -> str:
        """Choose the model for an uploaded video, given the name of the open one.

        A model that was trained on a world is replaced by the default weights for videos.
        """
        of_world = self.models[name].world in worlds.WORLDS if name in self.models else False
        if not of_world or ANY_VIDEO not in self.models or self.model(name).cfg.takes_background:
            return name
        return ANY_VIDEO

    def cut(self, name: str) -> Cut:
        """The import settings of a video for a model."""
        size = self.model(name).image_size
        return Cut.like(self.models[name].videos, size, self.video_fps)

    def episode(self, name: str, index: int, size: int) -> Episodes:
        """One episode of a world in frames of `size` pixels, of a file, or an upload."""
        if (video := self.uploads.get(name)) is not None:
            return Episodes(at_size(video, size))
        if name not in self.sources:
            lost = "this video is no longer available: open it again"
            raise UserError(
                lost if name.startswith("upload-") else f"there is no world '{name[:60]}'"
            )
        key, make = (name, size, index), partial(self.sources[name], index, size)
        return self.once("episode", self.episodes, key, make, MOST_EPISODES_KEPT)

    def background(self, model: str, name: str, index: int) -> AnyFrame | None:
        """The background of an episode, if the model needs one.

        For a user's video, it is computed once from all frames.
        """
        episode = self.episode(name, index, self.model(model).image_size)
        if episode.background is not None or not self.is_own(name):
            return episode.background
        find = self.model(model).background_for
        key, make = (name, index, model), partial(find, episode.video)
        return self.once("background", self.backgrounds, key, make, MOST_UPLOADS)

    def made(self, world: worlds.World, index: int) -> Episodes:
        """An episode of a world."""
        seed = world.splits["test"].seed
        for found in world.episodes(seed, 1, first=index):
            return found
        raise UserError(f"{world.name} has no episode {index}")

    def listed(self) -> dict[str, Any]:
        """All choices, for the page."""
        models = [
            {"name": name}
            | {key: getattr(entry, key) for key in ("world", "given", "steps", "line", "group")}
            for name, entry in self.models.items()
        ]
        return {"models": models, "worlds": list(self.sources), "episodes": MOST_EPISODES}


def at_size(
    video: UInt8[Tensor, "1 time 3 height width"], size: int
) -> UInt8[Tensor, "1 time 3 _size _size"]:
    """Resize a video for another model."""
    if video.shape[-1] == size:
        return video
    frames = F.interpolate(video[0].float(), (size, size), mode="bilinear", antialias=True)
    return frames.round().clamp(0, 255).to(torch.uint8)[None]


def set_up_thread() -> None:
    """Set up a thread to compute without gradients, on one core."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
