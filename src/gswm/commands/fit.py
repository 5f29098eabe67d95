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

    video: Annotated[Positional[Path], arg(metavar="VIDEO")]
    """A video of a fixed camera, a folder of such videos, or a file that --prepare wrote."""
    minutes: float = 8.0
    """Time limit for everything, from measuring to writing the page."""
    out: Path | None = None
    """The folder for weights, tracks and the page. Default: fits/NAME."""
    prepare: bool = False
    """Only measure and import, into OUT/video.hdf5, to train elsewhere."""
    region: str | None = None
    """X,Y,WIDTH,HEIGHT in pixels: use only this part of the picture."""
    start: Annotated[str | None, arg(metavar="NAME|RUN|WEIGHTS|none")] = None
    """Initial weights: a run folder, a weights file, or the name of a shipped model; none for new
    weights. Default: clips, if it ships and fits --size and --grid."""
    stride: int | None = None
    """Use every n-th frame. Default: chosen by the speed of the objects."""
    size: int | None = None
    """Resolution of the model in pixels. Default: that of --start; for new weights 64 or 128,
    chosen by the size of the objects."""
    objects: int | None = None
    """Number of object slots. Default: slightly more than the objects in view at once."""
    grid: int | None = None
    """Cells of discovery along a side. Default: as in --start; for new weights chosen by the
    smallest objects."""
    object_size: float | None = None
    """Size of a typical object as a share of the longer side. Default: measured."""
    sigma: float | None = None
    """Standard deviation of the pixels. Default: chosen by the contrast of the objects."""
    threshold: float | None = None
    """Initial difference from the background that counts as motion. Default: chosen by the
    contrast."""
    steps: int | None = None
    """Number of steps, instead of --minutes. Default: as many as there is time for."""
    batch: int = 16
    """Windows per step."""
    seed: int = 0
    device: str = "auto"
    """cpu, cuda, or auto: a GPU if there is one."""
    allow_damaged: bool = False
    """Use a video that FFmpeg reports as damaged, or that lacks frames."""
    force: bool = False
    """Replace an earlier fit, or files in a folder that gswm did not create."""

    def run(self) -> None:
        """Fit, and print the location of the results."""
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
        print(f"open {done}")
