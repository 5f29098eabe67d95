"""`gswm data look`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from tyro.conf import Positional, arg

from gswm.core.files import check_output, write_whole
from gswm.core.settings import to_dict
from gswm.core.words import printable
from gswm.data.looking.facts import Quantiles, VideoFacts
from gswm.data.looking.footage import Region
from gswm.data.looking.measuring import measure
from gswm.data.looking.verdicts import MOVES, Verdict, verdicts_on
from gswm.data.placement import parse_region
from gswm.fitting.config import RANGES
from gswm.fitting.decisions import Decisions, settings_for
from gswm.fitting.starting import find_start
from gswm.viz import formats
from gswm.viz.measured import measured_sheet

OPTIONS = {"start": "--start"} | {name: flag for name, (flag, *_) in RANGES.items()}
"""The option of `gswm fit` that sets a decision to such a value, by the name of the decision."""


@dataclass(frozen=True)
class LookCommand:
    """Settings of `gswm data look`."""

    EXAMPLES: ClassVar = ("gswm data look film.mp4 --out look.png",)

    video: Annotated[Positional[Path], arg(metavar="VIDEO")]
    """Video file, folder of videos or images, or imported HDF5 file. The camera must be fixed."""
    out: Path | None = None
    """Write a .png with measured boxes, the background, and object sizes and counts."""
    json: Path | None = None
    """Write all measurements to this JSON file."""
    region: str | None = None
    """Measure only this region of the upright video: x,y,width,height in pixels."""
    force: bool = False
    """Overwrite the --out and --json files if they exist."""

    def run(self) -> int:
        """Measure the video; 2 if nothing can be learned from it."""
        region = parse_region(self.region)
        for path, endings in ((self.out, formats.STILL), (self.json, (".json",))):
            if path is not None:
                check_output(path, endings, [self.video], force=self.force)
        found = measure(self.video, region)
        verdicts = verdicts_on(found.facts)
        refused = any(verdict.fatal for verdict in verdicts)
        decisions = None if refused else settings_for(found.facts, find_start(None, {}))
        name = printable(self.video.name)
        print("\n".join(lines(name, found.facts, decisions, verdicts)))
        if self.out is not None:
            formats.save_picture(self.out, measured_sheet(found, self.video.name))
            print(f"\n{self.out}")
        if self.json is not None:
            said = as_json(str(self.video), region, found.facts, decisions, verdicts)
            write_whole(self.json, (json.dumps(said, indent=2) + "\n").encode())
        return 2 if refused else 0


def as_json(
    video: str,
    region: Region | None,
    facts: VideoFacts,
    decisions: Decisions | None,
    verdicts: tuple[Verdict, ...],
) -> dict[str, Any]:
    """All measurements, for programs."""
    return {
        "video": video,
        "region": region,
        "facts": to_dict(facts),
        "shares of the longer side": facts.shares(),
        "settings": None
        if decisions is None
        else {name: to_dict(each) for name, each in decisions.items()},
        "verdicts": [to_dict(verdict) for verdict in verdicts],
    }


def lines(
    name: str, facts: VideoFacts, decisions: Decisions | None, verdicts: tuple[Verdict, ...]
) -> list[str]:
    """Format the report."""
    rate = "" if facts.fps is None else f", {facts.seconds:.1f} s at {facts.fps:.4g} per second"
    several = f"{facts.videos} videos, " if facts.videos > 1 else ""
    size = f"{facts.width} x {facts.height} px"
    frames = f"{facts.frames} frames" if facts.exact else f"about {facts.frames:,} frames"
    out = [f"{name}: {several}{frames}{rate}, {size}", ""]
    out += [f"measured in {facts.looked} frames", *table(measured(facts))]
    if decisions is not None:
        rows = [
            (key, OPTIONS.get(key, ""), shown(each.value), each.reason)
            for key, each in decisions.items()
        ]
        out += ["", "settings, with their options of `gswm fit`", *table(rows)]
    if verdicts:
        out += ["", "problems", *(f"  {verdict.line}" for verdict in verdicts)]
    return out


def measured(facts: VideoFacts) -> list[tuple[str, ...]]:
    """The facts, in words."""
    side, noise = facts.side, f"noise {facts.noise:.3f}"
    light = f"{facts.light[0]:.2f} to {facts.light[1]:.2f} of the usual brightness"
    moves = facts.camera >= MOVES
    camera = f"moves by {facts.shift:.1f} px per frame" if moves else "fixed"
    rows = [("camera", camera), ("light", light)]
    if not facts.objects:
        return [*rows, ("objects", "none"), ("noise", f"{facts.noise:.3f}")]
    speed, fast = facts.speeds.median, facts.speeds.top
    per_second = "" if facts.fps is None else f", {speed * facts.fps / side:.0%} per second"
    counts = facts.counts
    return [
        *rows,
        ("objects", f"{counts.low:.0f} to {counts.high:.0f} per frame, at most {facts.most}"),
        ("height", extent(facts.heights, side)),
        ("width", extent(facts.widths, side)),
        (
            "speed",
            f"{speed:.1f} px per frame, the fastest {fast:.1f} px; "
            f"{speed / side:.1%} of the longer side per frame{per_second}",
        ),
        ("contrast", f"{facts.contrast:.2f}, {noise}"),
        ("covered", f"{facts.covered.median:.0%} of the frame, at most {facts.covered.top:.0%}"),
        ("motion", f"in {facts.moving:.0%} of the frames"),
    ]


def extent(sides: Quantiles, side: int) -> str:
    """A range, and its median relative to the frame."""
    low, median, high = (f"{value:.0f}" for value in (sides.low, sides.median, sides.high))
    share = f"{sides.median / side:.0%} of the longer side"
    return f"{low} to {high} px, median {median} px ({share})"


def shown(value: object) -> str:
    """A value as text for a column."""
    if isinstance(value, tuple):
        return " ".join(map(shown, value))
    if value is None:
        return "all"
    return f"{value:g}" if isinstance(value, float) else str(value)


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows with all columns but the last aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return [
        "  " + "  ".join([*(f"{c:<{w}}" for c, w in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]
