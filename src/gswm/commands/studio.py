"""`gswm studio`."""

import signal
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from jaxtyping import UInt8
from torch import Tensor
from tyro.conf import Positional, arg

from gswm.commands.data import find
from gswm.commands.films import check_rate, own_film
from gswm.commands.resolving import check_no_video
from gswm.core.devices import find_device
from gswm.core.ending import EndedBySignal
from gswm.core.errors import UserError
from gswm.core.limits import check_range
from gswm.core.waiting import explained, tell
from gswm.core.words import counted, no_such, printable
from gswm.data.storage import hdf5
from gswm.studio import doorway
from gswm.studio.catalog import Catalog
from gswm.studio.memory import use_one_arena
from gswm.studio.opening import SEARCHED, first_in_view
from gswm.studio.protocol import MOST_GIVEN, MOST_STEPS
from gswm.weights.finding import for_any_video

FIRST = "two-layer"
"""The default model, if neither a model nor a video is named."""
MOST_SKIPPED = 10_000
"""Largest number of frames to skip, since they are decoded."""


@dataclass(frozen=True)
class StudioCommand:
    """Settings of `gswm studio`."""

    EXAMPLES: ClassVar = (
        "gswm studio",
        "gswm studio --video film.mp4",
        "gswm studio runs/two-layer-0 --no-browser --port 8080",
    )

    model: Annotated[Positional[str | None], arg(metavar="[NAME|RUN|WEIGHTS]")] = None
    """Model to open: a run folder, a weights file, or the name of a shipped model. Default:
    two-layer; clips with --video."""
    world: str | None = None
    """Name of a world, or an HDF5 file. Default: the world the model was trained on."""
    video: Path | None = None
    """Use your own video instead: a video file or a folder of images."""
    video_fps: float | None = None
    """Frame rate at which to sample videos, by their timestamps; 0 uses every frame. Also applies
    to videos dropped onto the page. Default: the frame rate of the training videos."""
    skip: int | None = None
    """With --video: skip the first n frames. Default: skip to the first object that the model finds
    entirely in view, searching 160 frames."""
    allow_damaged: bool = False
    """Accept videos that FFmpeg reports as damaged or that are missing frames."""
    port: int = 0
    """Port to listen on. Default: the first free port from 8765 on."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 accepts connections from other machines."""
    browser: bool = True
    """Open the page in a browser."""
    device: str = "auto"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""

    def run(self) -> None:
        """Serve the page until Ctrl-C is pressed."""
        from gswm.studio.server import FirstView, Server, StudioApp, rules_for

        if self.model is not None:
            check_no_video(self.model, "gswm", "studio", "--video")
        if self.world is not None and self.video is not None:
            raise UserError("use either --world or --video")
        if not 0 <= self.port < 1 << 16:
            raise UserError(f"--port is {self.port}; it must be from 1 to 65535")
        if self.skip is not None and self.video is None:
            raise UserError("--skip needs --video")
        check_range({"--skip": self.skip}, 0, MOST_SKIPPED)
        check_rate(self.video_fps)
        use_one_arena()
        catalog = Catalog(find_device(self.device), self.video_fps)
        catalog.add_installed()
        model = self.model or self.first_model(catalog)
        name = model if model in catalog.models else add_own(catalog, model)
        world = self.source(catalog, name)
        app = StudioApp(catalog, FirstView(name, world), rules_for(self.host))
        server = Server(app, self.host, self.port)
        print(f"gswm studio: {server.address}  (press Ctrl-C to quit)", flush=True)
        try:
            if self.browser:
                app.doorway = doorway.make(server.address)
                webbrowser.open(app.doorway.as_uri())
            server.run()
        except EndedBySignal as end:
            if end.which != signal.SIGINT:
                raise
        finally:
            if app.doorway is not None:
                app.doorway.unlink(missing_ok=True)

    def first_model(self, catalog: Catalog) -> str:
        """Choose an installed model, if none is named."""
        if self.video is not None:
            return for_any_video()
        if not catalog.models:
            raise UserError("no weights are installed: specify a run folder or a weights file")
        return FIRST if FIRST in catalog.models else next(iter(catalog.models))

    def source(self, catalog: Catalog, model: str) -> str:
        """The initial selection in the catalog."""
        if self.video is not None:
            return catalog.add_upload(self.own_video(self.video, catalog, model))
        world = self.world or catalog.models[model].world
        if hdf5.is_name_of_file(world):
            file = Path(world)
            own = hdf5.world_of(world) == "video"
            catalog.add_source(file.name, lambda index: find(str(file), index, None), own=own)
            return file.name
        if world not in catalog.sources:
            raise UserError(no_such("world", world, catalog.sources))
        return world

    def own_video(
        self, path: Path, catalog: Catalog, name: str
    ) -> UInt8[Tensor, "1 time 3 size size"]:
        """The frames of a video that the studio can show, from the first one to show."""
        entry, model = catalog.models[name], catalog.model(name)
        most = MOST_GIVEN + MOST_STEPS
        film = own_film(
            *(path, entry.videos, model.image_size, self.video_fps),
            frames=most + (SEARCHED if self.skip is None else self.skip),
            allow_damaged=self.allow_damaged,
        )
        video, first = film.read(), self.skip
        if first is None:
            with explained(f"looking for objects in {printable(path.name)}"):
                first = first_in_view(model, video, film.footage, entry.given, entry.steps)
            if first:
                skipped = f"{printable(path.name)}: skipping {counted(first, 'frame')}"
                tell(f"{skipped} to reach an object in view (--skip 0 starts at the first frame)")
        if first >= video.shape[1]:
            has = counted(video.shape[1], "frame")
            raise UserError(f"--skip is {first}, but {path} has {has}: use a smaller number")
        return video[:, first : first + most].clone()


def add_own(catalog: Catalog, model: str) -> str:
    """Add a run or a file under the last part of its path; under all of it if that is taken."""
    short = Path(model).resolve().name
    return catalog.add_weights(model if short in catalog.models else short, model)
