"""`gswm weights`."""

from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from gswm.core.errors import UserError
from gswm.weights import files as weights
from gswm.weights import finding

SHOWN = (
    *("center_error", "strict_error", "objects", "mota"),
    *("on_mode", "share_0", "in_corridor_10", "in_corridor_50"),
)
FIRST = {
    "center_error": "center",
    "strict_error": "strict",
    "on_mode": "on mode",
    "share_0": "left",
    "in_corridor_10": "corridor@10",
    "in_corridor_50": "@50",
}
"""The scores for which there is always room, and what they are called where there is little."""
COLUMNS = ("name", "MB", "steps", "GPU min", "seed", "commit", "test scores", "more")
IF_ROOM = ("seed", "commit", "more")
"""Columns that a narrow terminal does without, the last first."""
WORDS = ("name", "commit", "test scores", "more")
"""Columns of words, which begin at the left; numbers end at the right."""
GAP = "  "


@dataclass(frozen=True)
class WeightsCommand:
    """Settings of `gswm weights`: there are none."""

    def run(self) -> None:
        """List the weights that ship, with their scores on the test set, and verify them."""
        found = finding.shipped()
        if not found or finding.SHIPPED is None:
            raise UserError("this installation has no weights: train some with `gswm train`")
        wanted = finding.checksums()
        lost = (Path(name) for name in wanted if Path(name).stem not in found)
        found |= {file.stem: finding.SHIPPED / file for file in lost}
        wrong = {name: finding.fault(path, wanted) for name, path in sorted(found.items())}
        rows = [row(found[name], fault) for name, fault in wrong.items()]
        for line in lines(rows, get_terminal_size().columns):
            print(line)
        if bad := [f"{name} {fault}" for name, fault in wrong.items() if fault is not None]:
            named = ", ".join(bad)
            count = f"{len(bad)} of {len(wrong)} files are not what shipped"
            raise UserError(f"{count}: {named}; {finding.MEND}")
        print(f"{len(rows)} files, checksums right")


def row(path: Path, fault: str | None) -> dict[str, str]:
    """What is known of a file, by column; of a damaged one only that it is."""
    if fault is not None:
        size = f"{path.stat().st_size / 1e6:.1f}" if path.is_file() else ""
        return {"name": path.stem, "MB": size, "test scores": fault.upper()}
    about: dict[str, Any] = weights.read_header(path)["about"]
    scores = listed(about.get("test", {}))
    first = (f"{short} {scores[name]:.3f}" for name, short in FIRST.items() if name in scores)
    more = (f"{name} {value:.3f}" for name, value in scores.items() if name not in FIRST)
    minutes = about.get("minutes")
    return {
        "name": path.stem,
        "MB": f"{path.stat().st_size / 1e6:.1f}",
        "steps": str(about.get("step", "")),
        "GPU min": "" if minutes is None else f"{minutes:.1f}",
        "seed": str(about.get("seed", "")),
        "commit": str(about.get("commit") or ""),
        "test scores": GAP.join(first),
        "more": GAP.join(more),
    }


def lines(rows: list[dict[str, str]], room: int) -> list[str]:
    """A table, one line a row, with as many columns as there is room for."""
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
    """Those of the scores that are listed: what is no number is not."""
    found = ((name, scores.get(name)) for name in SHOWN)
    return {name: value for name, value in found if value is not None}
