"""`gswm fit`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gswm.core.waiting import tell
from gswm.fitting.fit import FitConfig, fit_video


@dataclass(frozen=True)
class FitCommand:
    """Settings of `gswm fit`."""

    video: Positional[Path]
    """A video of a fixed camera, a folder of such videos, or a file that --prepare wrote."""
    minutes: float = 8.0
    """How long all of it may take, from measuring to the page."""
    out: Path | None = None
    """The folder for weights, tracks and the page. Default: fits/NAME."""
    prepare: bool = False
    """Measure and import only, into OUT/video.hdf5, to train elsewhere."""
    region: str | None = None
    """X,Y,WIDTH,HEIGHT in pixels: use this part of the picture only."""
    start: Annotated[str | None, arg(metavar="NAME|RUN|WEIGHTS|none")] = None
    """Trained weights to begin with: a run's folder, a file of weights, or the name of one that
    ships; none for new weights. Default: clips, if it ships and fits --size and --grid."""
    stride: int | None = None
    """Take every so many frames. Default: by the speed of the objects."""
    size: int | None = None
    """Pixels on a side of the frames that the model sees. Default: as --start was trained, and 64
    or 128, by the objects, for new weights."""
    objects: int | None = None
    """Slots for objects. Default: as many as are in view at once, and some."""
    grid: int | None = None
    """Cells of discovery along a side. Default: as --start was trained, and by the smallest
    objects for new weights."""
    object_size: float | None = None
    """Size of a typical object as a share of the longer side. Default: measured."""
    sigma: float | None = None
    """Standard deviation of the pixels. Default: by the contrast of the objects."""
    threshold: float | None = None
    """Difference from the background that counts as motion at first. Default: by the contrast."""
    steps: int | None = None
    """Train so many steps, however long they take. Default: as many as there is time for."""
    batch: int = 16
    """Windows per step."""
    seed: int = 0
    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one."""
    allow_damaged: bool = False
    """Take the video as it is, though FFmpeg reports damage or frames are missing."""
    force: bool = False
    """Replace files in a folder that gswm did not make."""

    def run(self) -> None:
        """Fit, and say where the results are."""
        cfg = FitConfig(
            minutes=self.minutes,
            steps=self.steps,
            batch=self.batch,
            seed=self.seed,
            device=self.device,
            prepare=self.prepare,
            region=self.region,
            allow_damaged=self.allow_damaged,
            force=self.force,
            start=self.start,
            decided={
                "stride": self.stride,
                "image_size": self.size,
                "num_objects": self.objects,
                "grid": self.grid,
                "object_size": self.object_size,
                "likelihood_std": self.sigma,
                "motion_threshold": self.threshold,
            },
        )
        out = self.out or Path("fits") / self.video.stem
        done = fit_video(self.video, out, cfg, tell)
        print(f"look at {done}")
