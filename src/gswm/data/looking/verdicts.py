"""Problems of a video: one sentence each, with the measured number and a remedy."""

from collections.abc import Callable
from dataclasses import dataclass

from gswm.core.words import counted
from gswm.data.looking.facts import VideoFacts

FEW = 60
"""Frames below which there is too little to learn from."""
NONE = 8
"""Frames below which nothing can be measured."""
MOVES = 0.25
"""Fraction of pairs of frames with a shift above which the camera moves."""
MANY = 20
"""Number of objects per frame that counts as a crowd."""
FULL = 0.4
"""Largest fraction of the frame that objects may cover."""
SMALL = 3.0
"""Size of the smallest object in pixels, in a frame of 128."""
BLACK = 0.04
"""Brightness below which nothing is visible."""
LOUD = 0.15
"""Noise above which nothing is visible, from 0 to 1."""
UNEVEN = 0.1
"""Fraction of odd intervals above which the frame rate is variable."""


@dataclass(frozen=True)
class Verdict:
    """One problem."""

    name: str
    line: str
    """The problem and its remedy, in one sentence."""
    fatal: bool
    """Whether nothing can be learned from the video as it is."""


def verdicts_on(facts: VideoFacts) -> tuple[Verdict, ...]:
    """All problems of a video, fatal ones first."""
    found = [verdict for check in CHECKS if (verdict := check(facts)) is not None]
    why = ("frames", "black", "noise", "camera")
    if any(verdict.fatal and verdict.name in why for verdict in found):
        found = [verdict for verdict in found if verdict.name != "still"]
    return tuple(sorted(found, key=lambda verdict: not verdict.fatal))


def frames(facts: VideoFacts) -> Verdict | None:
    """Too few frames."""
    if facts.frames >= FEW:
        return None
    line = (
        f"The video has {counted(facts.frames, 'frame')}, but learning objects takes {FEW} or "
        f"more: use a longer video."
    )
    return Verdict("frames", line, fatal=facts.frames < NONE)


def black(facts: VideoFacts) -> Verdict | None:
    """Nothing to see."""
    if facts.brightest >= BLACK or facts.objects:
        return None
    line = (
        f"The picture is black (its bright parts are at {facts.brightest:.0%} of white): check the "
        "file, or brighten it."
    )
    return Verdict("black", line, fatal=True)


def noise(facts: VideoFacts) -> Verdict | None:
    """Nothing but noise."""
    if facts.noise < LOUD:
        return None
    line = (
        f"The picture is noise (pixels vary by {facts.noise:.0%} of white from frame to frame): "
        "check the file, or use a video with more light."
    )
    return Verdict("noise", line, fatal=True)


def camera(facts: VideoFacts) -> Verdict | None:
    """A camera that moves."""
    if facts.camera < MOVES:
        return None
    line = (
        f"The camera moves (the whole picture shifts in {facts.camera:.0%} of the pairs of frames, "
        f"by {facts.shift:.1f} px per frame): stabilize the video, or use one from a fixed camera."
    )
    return Verdict("camera", line, fatal=True)


def still(facts: VideoFacts) -> Verdict | None:
    """Nothing that moves."""
    if facts.objects:
        return None
    line = (
        "Nothing moves from place to place "
        f"({facts.covered.high:.1%} of the frame changes): use a part of the video with motion, "
        "or choose a region with --region."
    )
    return Verdict("still", line, fatal=True)


def crowd(facts: VideoFacts) -> Verdict | None:
    """Too many objects."""
    if facts.counts.high <= MANY:
        return None
    line = (
        f"{facts.counts.high:.0f} objects are in view at once, more than the limit of about "
        f"{MANY}: choose a region with --region."
    )
    return Verdict("crowd", line, fatal=False)


def cover(facts: VideoFacts) -> Verdict | None:
    """Objects that hide the background."""
    if facts.covered.median <= FULL:
        return None
    line = (
        f"{facts.covered.median:.0%} of the frame differs from the background, more than the "
        f"limit of {FULL:.0%}: move the camera farther away, or record at a quieter time."
    )
    return Verdict("covered", line, fatal=False)


def small(facts: VideoFacts) -> Verdict | None:
    """Objects of a few pixels."""
    pixels = 128 * min(facts.heights.median, facts.widths.median) / facts.side
    if not facts.objects or pixels >= SMALL:
        return None
    line = (
        f"The objects are {pixels:.1f} px large in a frame of 128 px, below the limit of "
        f"{SMALL:.0f} px: choose a region with --region."
    )
    return Verdict("small", line, fatal=False)


def faint(facts: VideoFacts) -> Verdict | None:
    """Objects that hardly differ from noise."""
    if not facts.objects or facts.contrast >= 2.5 * facts.noise or facts.camera >= MOVES:
        return None
    line = (
        f"Objects differ from the background by {facts.contrast:.3f}, but its noise is "
        f"{facts.noise:.3f}: use a video with more light or contrast."
    )
    return Verdict("faint", line, fatal=False)


def cuts(facts: VideoFacts) -> Verdict | None:
    """Several scenes in one video."""
    if not facts.cuts or facts.camera >= MOVES:
        return None
    line = f"The scene changes {facts.cuts} times: split the video into one file per scene."
    return Verdict("cuts", line, fatal=False)


def rate(facts: VideoFacts) -> Verdict | None:
    """A variable frame rate."""
    if facts.uneven < UNEVEN or facts.fps is None:
        return None
    line = (
        f"The frame rate varies ({facts.uneven:.0%} of the intervals are odd): use `gswm data "
        f"import --fps {facts.fps:.3g}`, which evens it out, and the imported file."
    )
    return Verdict("rate", line, fatal=False)


CHECKS: tuple[Callable[[VideoFacts], Verdict | None], ...] = (
    *(frames, black, noise, camera, still, crowd, cover, small, faint, cuts, rate),
)
