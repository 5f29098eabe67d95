"""The studio inside a notebook."""

import html
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.limits import check_integers, check_range
from gswm.core.words import no_such
from gswm.models.base import WorldModel, check_video
from gswm.studio.catalog import Catalog
from gswm.studio.protocol import MOST_GIVEN
from gswm.studio.server import FirstView, Server, StudioApp, rules_for

GIVEN = 10


class StudioFrame:
    """A running studio, displayed as the value of a notebook cell."""

    def __init__(self, server: Server, height: int) -> None:
        self.server, self.height = server, height
        self.address = server.address

    def _repr_html_(self) -> str:
        source = html.escape(self.address, quote=True)
        return (
            f'<iframe src="{source}" width="100%" height="{self.height}" frameborder="0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"gswm studio at {self.address}"

    def stop(self) -> None:
        """Stop the studio; it also stops when Python exits."""
        self.server.stop()


def studio(
    model: str | WorldModel[Any] = "two-layer",
    video: Tensor | None = None,
    *,
    world: str | None = None,
    given: int | None = None,
    height: int = 860,
) -> StudioFrame:
    """Open the studio in a notebook.

    Args:
        model: a model, or an argument of `gswm.load`.
        video: video to open first, (time, 3, size, size), or a batch, whose first video is used.
        world: the world to open first. Default: the one that the model was trained on.
        given: number of frames that the model sees. Default: as in its training; 10 for a model in
            memory.
        height: height of the page in pixels.
    """
    named = isinstance(model, str)
    if not named and not isinstance(model, WorldModel):
        raise UserError(f"expected a model or its name, not {type(model).__name__}")
    if video is not None and not isinstance(video, Tensor):
        raise UserError(
            f"expected a video as a torch tensor, not {type(video).__name__}: use "
            "gswm.read_video(path)"
        )
    if given is not None:
        check_integers(given=given)
        check_range({"given": given}, 1, MOST_GIVEN)
    catalog = Catalog("cpu" if isinstance(model, str) else model.device)
    catalog.add_installed()
    name = model if named else "model"
    if not named:
        if video is None and world is None:
            raise UserError("pass a video or a world: gswm.studio(model, video)")
        catalog.add_model(name, model, world or "video", GIVEN)
    elif name not in catalog.models:
        catalog.add_weights(name, name)
    if given is not None:
        catalog.models[name] = replace(catalog.models[name], given=given)
    start = world or catalog.models[name].world
    if world is not None and world not in catalog.sources:
        raise UserError(no_such("world", world, catalog.sources))
    if video is None and start not in catalog.sources:
        raise UserError(f"pass a video or a world: {start}, on which {name} was trained, is none")
    if video is not None:
        batch = video if video.dim() == 5 else video[None]
        checked = check_video(batch[:1], catalog.model(name).image_size)
        start = catalog.add_upload((255 * checked).round().to(torch.uint8).cpu())
    rules = rules_for("127.0.0.1", notebook=True)
    return StudioFrame(Server(StudioApp(catalog, FirstView(name, start), rules)).start(), height)
