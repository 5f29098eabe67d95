"""`gswm weights` and `gswm weights fetch`."""

from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any, ClassVar

from tyro.conf import Positional, arg

from gswm.core.errors import UserError
from gswm.core.words import counted, no_such
from gswm.data.worlds.registry import WORLDS
from gswm.report.paper import BALLS
from gswm.report.results import FAIL, main_score
from gswm.weights import files as weights
from gswm.weights import finding

COUNT = "count_right"
"""Only listed if it is the main score."""
SHOWN = {
    **{"f1_all": "F1", "in_corridor_50": "corridor@50", "on_mode": "on mode"},
    **{"center_error": "center", "strict_error": "strict", "in_corridor_10": "corridor@10"},
    **{"share_0": "left", "objects": "objects", "mota": "MOTA", COUNT: "count"},
}
"""The scores that are listed, and their short names."""
COLUMNS = ("name", "MB", "where", "steps", "GPU min", "seed", "commit", "test score", "more")
IF_ROOM = ("GPU min", "seed", "commit", "more")
"""Columns that a narrow terminal omits, the last first."""
WORDS = ("name", "where", "commit", "test score", "more")
"""Text columns, which are left-aligned; numbers are right-aligned."""
GAP = "  "


@dataclass(frozen=True)
class WeightsCommand:
    """Settings of `gswm weights`, which has none."""

    NOTES: ClassVar = (
        "`gswm weights fetch NAME` downloads a model that is not installed.",
        "The test score is the main one of each model, as in the model zoo. n is the number of "
        "episodes if it is not the whole test set, and a model fails if its MOTA is below 0.5. "
        "docs/metrics.md defines all scores:",
        "F1: of the detections, at an IoU of 0.3. center: distance to the true centers in sides of "
        "the frame, summed over ten imagined frames; strict: the same, plus 1 in each frame for a "
        "missed or surplus object, per true object. on mode: share of the futures that end at a "
        "true end; left: share that end nearest to the left one. corridor@50: share of the agents "
        "that stay in the corridor for 50 imagined frames. objects: mean number of objects. count: "
        "share of the frames with the right number. MOTA: accuracy of tracking.",
    )

    def run(self) -> None:
        """List all named models with scores and locations; verify those that are installed."""
        if not finding.names():
            raise UserError("no weights are installed: train a model with `gswm train`")
        wanted = finding.checksums()
        models = [KnownModel.of(name, wanted) for name in finding.names()]
        for line in lines([model.row() for model in models], get_terminal_size().columns):
            print(line)
        here = sum(model.is_here for model in models)
        if bad := [model for model in models if model.fault is not None]:
            listed = ", ".join(f"{model.name} {model.fault}" for model in bad)
            are = "is" if len(bad) == 1 else "are"
            count = f"{len(bad)} of {counted(here, 'file')} {are} damaged or missing"
            mends = dict.fromkeys(model.mend for model in bad)
            raise UserError(f"{count}: {listed}; {'; '.join(mends)}")
        print(f"{counted(here, 'file')}, checksums verified{elsewhere(models)}")


@dataclass(frozen=True)
class FetchCommand:
    """Settings of `gswm weights fetch`."""

    EXAMPLES: ClassVar = ("gswm weights fetch obj3d",)

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """Name of a model listed by `gswm weights`."""

    def run(self) -> None:
        """Download a model into the cache if necessary, and print its path."""
        if self.name not in finding.names():
            raise UserError(no_such("model", self.name, finding.names()))
        if (path := finding.shipped().get(self.name)) is not None:
            finding.check_shipped(path)
        else:
            path = finding.fetch(self.name)
        print(path)


@dataclass(frozen=True)
class KnownModel:
    """A named model."""

    name: str
    place: finding.Place
    path: Path | None
    """The path of its file; None if it does not ship and is not in the cache."""
    fault: str | None

    @classmethod
    def of(cls, name: str, wanted: dict[str, str]) -> "KnownModel":
        """Look up a model, and verify it; `wanted` are the checksums."""
        place, shipped = finding.place(name), finding.shipped().get(name)
        path = shipped or (finding.cached(name) if place == "cache" else None)
        ships = finding.catalog().get(name, {}).get("ships", True)
        if path is None and ships and finding.SHIPPED is not None:
            path = finding.SHIPPED / f"{name}.safetensors"
        return cls(name, place, path, None if path is None else finding.fault(path, wanted))

    @property
    def is_here(self) -> bool:
        """Whether its file exists, or should."""
        return self.path is not None

    @property
    def mend(self) -> str:
        """The remedy for its fault."""
        if self.place == "cache":
            return f"run `gswm weights fetch {self.name}`"
        return finding.MEND

    def row(self) -> dict[str, str]:
        """The row of a table, by column; nearly empty for a damaged model."""
        known = finding.catalog().get(self.name, {})
        size = known.get("bytes")
        if self.path is not None:
            size = self.path.stat().st_size if self.path.is_file() else None
        found = {"name": self.name, "MB": "" if size is None else f"{size / 1e6:.1f}"}
        if self.fault is not None:
            return found | {"test score": self.fault.upper()}
        found["where"] = self.place
        about = known.get("about", {}) if self.path is None else about_of(self.path)
        scores = listed(about.get("test", {}))
        main = main_score(scores, str(about.get("measured", {}).get("world", "")))
        other = {name: value for name, value in scores.items() if name not in (main, COUNT)}
        more = (f"{SHOWN[name]} {value:.3f}" for name, value in other.items())
        minutes = None if about.get("device") == "cpu" else about.get("minutes")
        return found | {
            "steps": str(about.get("step", "")),
            "GPU min": "" if minutes is None else f"{minutes:.1f}",
            "seed": str(about.get("seed", "")),
            "commit": str(about.get("commit") or ""),
            "test score": "" if main is None else judged(main, scores, about.get("measured", {})),
            "more": GAP.join(more),
        }


def about_of(path: Path) -> dict[str, Any]:
    """Read `about` in the header of a file."""
    return weights.read_header(path)["about"]


def elsewhere(models: list[KnownModel]) -> str:
    """Report how to get the models that are not installed, if any."""
    away = [model for model in models if not model.is_here]
    if not away:
        return ""
    if away[0].place == "downloadable":
        return f"; `gswm weights fetch NAME` downloads the other {len(away)}"
    return (
        f"; {len(away)} others are not installed: in a clone of gswm, run `pip install -e .`; "
        f"elsewhere, set {finding.ADDRESS} to a URL that has them"
    )


def lines(rows: list[dict[str, str]], room: int) -> list[str]:
    """A table, one line per row, with as many columns as fit."""
    head = {name: name for name in COLUMNS} | {"more": ""}
    width = {name: max(len(row.get(name, "")) for row in (head, *rows)) for name in COLUMNS}
    left_out: list[str] = []
    for name in reversed(IF_ROOM):
        kept = [width[column] for column in COLUMNS if column not in left_out]
        if sum(kept) + len(GAP) * (len(kept) - 1) > room:
            left_out.append(name)
    shown = [name for name in COLUMNS if name not in left_out]

    def line(row: dict[str, str]) -> str:
        cells = ((name, row.get(name, "")) for name in shown)
        padded = (f"{text:{'<' if name in WORDS else '>'}{width[name]}}" for name, text in cells)
        return GAP.join(padded).rstrip()

    return [line(row) for row in (head, *rows)]


def listed(scores: dict[str, float | None]) -> dict[str, float]:
    """The scores to list, without NaN."""
    found = ((name, scores.get(name)) for name in SHOWN)
    return {name: value for name, value in found if value is not None}


def judged(name: str, scores: dict[str, float], measured: dict[str, Any]) -> str:
    """The main score, with n if it is partial, marked if the model fails at it in these worlds."""
    world, n = str(measured.get("world", "")), measured.get("episodes")
    lost = name == "center_error" and world in BALLS and scores.get("mota", 1.0) < FAIL
    value = f"fails ({scores[name]:.3f})" if lost else f"{scores[name]:.3f}"
    there = WORLDS[world].splits["test"].episodes if world in WORLDS else 0
    few = isinstance(n, int) and n < there
    return f"{SHOWN[name]} {value}" + (f", n = {n}" if few else "")
