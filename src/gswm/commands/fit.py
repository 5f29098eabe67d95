"""`gswm fit`."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from gswm.core.waiting import tell
from gswm.fitting.config import FitConfig, Learn
from gswm.fitting.fit import default_folder, fit_video


@dataclass(frozen=True)
class FitCommand:
    """Settings of `gswm fit`."""

    NOTES: ClassVar = (
        "Run the same command again to resume an interrupted fit. Without a GPU, use "
        "--learn motion, or --prepare, and fit OUT/video.hdf5 on a machine that has one.",
    )
    EXAMPLES: ClassVar = (
        "gswm fit film.mp4 --minutes 8",
        "gswm fit film.mp4 --learn motion --minutes 5",
        "gswm fit film.mp4 --region 0,120,640,360 --objects 12",
        "gswm fit film.mp4 --prepare",
    )

    video: Annotated[Positional[Path], arg(metavar="VIDEO")]
    """Video from a fixed camera, folder of such videos, or file written by --prepare."""
    out: Path | None = None
    """Output folder for weights, tracks and a web page of results. Default: fits/NAME."""
    minutes: float = 8.0
    """Time limit in minutes, including measuring the video and writing the results."""
    steps: int | None = None
    """Train for this many steps instead of --minutes."""
    learn: Learn = "all"
    """Networks to train: all, for which a GPU is needed, or only those that predict motion. Objects
    are then found as by the initial weights, and a CPU is enough."""
    prepare: bool = False
    """Only measure and import the video, into OUT/video.hdf5, so that another machine can train."""
    region: str | None = None
    """Use only this region of the upright video: x,y,width,height in pixels."""
    start: Annotated[str | None, arg(metavar="NAME|RUN|WEIGHTS|none")] = None
    """Initial weights: the name of a shipped model, a run folder, a weights file, or none (random
    weights). Default: clips, if it is installed and agrees with --size and --grid."""
    keep_fit: bool = False
    """Keep the fit even if its initial weights find what moves in the validation part better."""
    stride: int | None = None
    """Use every n-th frame. Default: chosen from the speed of the objects."""
    size: int | None = None
    """Resolution of the model in pixels. Default: that of --start; for random weights, 64 or 128,
    chosen from the size of the objects."""
    objects: int | None = None
    """Number of object slots. Default: slightly more than the objects in view at once."""
    grid: int | None = None
    """Discovery cells along each side. Default: as in --start; for random weights, chosen from the
    smallest objects."""
    object_size: float | None = None
    """Size of a typical object, as a fraction of the longer side. Default: measured."""
    sigma: float | None = None
    """Standard deviation of the pixel likelihood. Default: chosen from the objects' contrast."""
    threshold: float | None = None
    """Difference from the background that counts as motion at first. Default: chosen from the
    contrast."""
    batch: int = 16
    """Training windows per step."""
    seed: int = 0
    """Random seed."""
    allow_damaged: bool = False
    """Accept videos that FFmpeg reports as damaged or that are missing frames."""
    force: bool = False
    """Overwrite an earlier fit, or files in a folder that gswm did not create."""
    device: str = "auto"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""

    def run(self) -> None:
        """Fit, and print the location of the results."""
        cfg = FitConfig(
            minutes=self.minutes,
            steps=self.steps,
            learn=self.learn,
            batch=self.batch,
            seed=self.seed,
            device=self.device,
            prepare=self.prepare,
            region=self.region,
            allow_damaged=self.allow_damaged,
            force=self.force,
            start=self.start,
            keep_fit=self.keep_fit,
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
        out = self.out or default_folder(self.video)
        done = fit_video(self.video, out, cfg, tell)
        if self.prepare:
            print(f"train on it with `gswm fit {shlex.quote(str(done))}`, also on another machine")
        else:
            print(f"open {done}")
