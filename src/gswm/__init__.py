"""Object-centric world models for video.

model = gswm.build("two-layer")          a recipe's model, untrained
model = gswm.load("weights.safetensors") a trained one
track = model.infer(video)               its objects, frame by frame
future = model.imagine(video, given=10, steps=90, futures=16)
gswm.save("mine.safetensors", model)     with its recipe, model.recipe
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gswm import studio
    from gswm.core.errors import UserError
    from gswm.models.base import WorldModel
    from gswm.models.registry import RECIPES, Recipe, build, recipe
    from gswm.models.track import Track
    from gswm.weights.files import load, save

try:
    __version__ = version("gswm")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+source"

HOME = {
    "UserError": "gswm.core.errors",
    **dict.fromkeys(["RECIPES", "Recipe", "build", "recipe"], "gswm.models.registry"),
    **dict.fromkeys(["load", "save"], "gswm.weights.files"),
    **dict.fromkeys(["WorldModel"], "gswm.models.base"),
}
__all__ = [
    "RECIPES",
    "Recipe",
    "Track",
    "UserError",
    "WorldModel",
    "build",
    "load",
    "recipe",
    "save",
    "studio",
]


def __getattr__(name: str) -> Any:
    """What a user imports, when it is asked for: `gswm --help` does not wait for torch."""
    if name == "studio":
        return import_module("gswm.studio")
    if name not in HOME:
        raise AttributeError(f"module 'gswm' has no attribute '{name}'")
    return getattr(import_module(HOME[name]), name)
