"""`gswm weights`."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from gswm.errors import UserError
from gswm.weights import is_intact, read_header, shipped

SHOWN = (
    *("center_error", "strict_error", "objects", "mota"),
    *("on_mode", "share_0", "in_corridor_10", "in_corridor_50"),
)


@dataclass(frozen=True)
class Weights:
    """Settings of `gswm weights`: there are none."""

    def run(self) -> None:
        """List the weights that ship, with their scores on the test set, and verify them."""
        found = shipped()
        if not found:
            raise UserError("this installation has no weights: train some with `gswm train`")
        table = Table("name", "MB", "steps", "GPU minutes", "test scores", box=None)
        for name, path in found.items():
            if not is_intact(path):
                raise UserError(f"{path} is damaged: its checksum is not the one that was shipped")
            about = read_header(path)["about"]
            scores = about.get("test", {})
            text = "  ".join(f"{k} {v:.3f}" for k, v in listed(scores).items())
            size = f"{path.stat().st_size / 1e6:.1f}"
            table.add_row(name, size, str(about["step"]), f"{about['minutes']:.1f}", text)
        Console().print(table)


def listed(scores: dict[str, float | None]) -> dict[str, float]:
    """Those of the scores that are listed: what is no number is not."""
    found = ((name, scores.get(name)) for name in SHOWN)
    return {name: value for name, value in found if value is not None}
