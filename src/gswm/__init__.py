"""Object-centric world models for video.

tracks = gswm.track("film.mp4")          the objects of any video, in its own pixels
model = gswm.load("two-layer")           a trained model; gswm.build for an untrained one
model = gswm.fit("film.mp4", minutes=8)  a model of your own video
video = gswm.read_video("film.mp4")      a tensor (1, time, 3, 64, 64)
track = model.infer(video)               its objects, frame by frame
future = model.imagine(video, given=10, steps=90, futures=16)
future.save("futures.gif")               also .mp4, .png, .csv
gswm.evaluate(model, episodes, protocol)  its scores on episodes with ground truth
gswm.save("mine.safetensors", model)     with its recipe, model.recipe
gswm.studio(model, video)                the studio, in a notebook

Names are imported when they are first used, so `import gswm` does not wait for torch.
"""

import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

# torch's CPU threads wait for each other by spinning, for milliseconds, after every operation. If
# another process occupies a core, each wait lasts as long as that process has its turn. OpenMP
# reads this when torch is imported; 1,000 turns of the loop last for microseconds.
if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    os.environ["GOMP_SPINCOUNT"] = "1000"

if TYPE_CHECKING:
    from gswm.core.errors import UserError
    from gswm.core.schedule import Anneal, Curriculum, Stage
    from gswm.data.batches.batch import Batch
    from gswm.data.episode import Episodes, Truth
    from gswm.data.importing.film import Film
    from gswm.data.importing.reading import open_video, read_video
    from gswm.data.placement import Placement
    from gswm.data.worlds.base import Split, World
    from gswm.data.worlds.registry import register_world, world
    from gswm.eval.evaluate import Result, evaluate
    from gswm.eval.protocols import Protocol, register_protocol
    from gswm.fast.loading import load
    from gswm.fitting.fit import fit
    from gswm.models.base import Loss, ModelConfig, Noise, WorldModel, as_float
    from gswm.models.recipe import DataConfig, Recipe, TrainConfig
    from gswm.models.registry import RECIPES, ModelEntry, build, recipe, register
    from gswm.models.state import State
    from gswm.models.track import Track
    from gswm.studio.notebook import studio
    from gswm.tracking.track import VideoTracks, track
    from gswm.weights.files import save

try:
    __version__ = version("gswm")
except PackageNotFoundError:  # run from a source tree without installation
    __version__ = "0+source"

HOME = {
    "UserError": "gswm.core.errors",
    **dict.fromkeys(["Anneal", "Curriculum", "Stage"], "gswm.core.schedule"),
    "Batch": "gswm.data.batches.batch",
    "Film": "gswm.data.importing.film",
    **dict.fromkeys(["open_video", "read_video"], "gswm.data.importing.reading"),
    "Placement": "gswm.data.placement",
    **dict.fromkeys(["Episodes", "Truth"], "gswm.data.episode"),
    **dict.fromkeys(["Split", "World"], "gswm.data.worlds.base"),
    **dict.fromkeys(["register_world", "world"], "gswm.data.worlds.registry"),
    **dict.fromkeys(["Result", "evaluate"], "gswm.eval.evaluate"),
    **dict.fromkeys(["Protocol", "register_protocol"], "gswm.eval.protocols"),
    "load": "gswm.fast.loading",
    "fit": "gswm.fitting.fit",
    **dict.fromkeys(["Loss", "ModelConfig", "Noise", "WorldModel", "as_float"], "gswm.models.base"),
    **dict.fromkeys(["DataConfig", "Recipe", "TrainConfig"], "gswm.models.recipe"),
    **dict.fromkeys(
        ["RECIPES", "ModelEntry", "build", "recipe", "register"], "gswm.models.registry"
    ),
    "State": "gswm.models.state",
    "Track": "gswm.models.track",
    **dict.fromkeys(["VideoTracks", "track"], "gswm.tracking.track"),
    "save": "gswm.weights.files",
}
"""The public names and their modules."""
__all__ = [
    "RECIPES",
    "Anneal",
    "Batch",
    "Curriculum",
    "DataConfig",
    "Episodes",
    "Film",
    "Loss",
    "ModelConfig",
    "ModelEntry",
    "Noise",
    "Placement",
    "Protocol",
    "Recipe",
    "Result",
    "Split",
    "Stage",
    "State",
    "Track",
    "TrainConfig",
    "Truth",
    "UserError",
    "VideoTracks",
    "World",
    "WorldModel",
    "as_float",
    "build",
    "evaluate",
    "fit",
    "load",
    "open_video",
    "read_video",
    "recipe",
    "register",
    "register_protocol",
    "register_world",
    "save",
    "studio",
    "track",
    "world",
]


if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name == "studio":  # the package itself, which is callable
            return import_module("gswm.studio")
        if name not in HOME:
            raise AttributeError(f"module 'gswm' has no attribute '{name}'")
        return getattr(import_module(HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
