"""`gswm selftest`."""

import sys
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from gswm.devices import find_device
from gswm.errors import UserError
from gswm.selftest import RECIPES, Path, selftest


class DisagreementError(UserError):
    """The fast path computes something else than the plain one."""

    code = 1


@dataclass(frozen=True)
class SelfTest:
    """Settings of `gswm selftest`."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one."""
    recipes: tuple[str, ...] = RECIPES
    """Whose models are compared, at small sizes."""
    paths: tuple[Path, ...] = ()
    """deferred, kernels, captured and compiled on a GPU; deferred on a CPU, if not given."""

    def run(self) -> None:
        """Compare, and print a table."""
        device = find_device(self.device)
        if "captured" in self.paths and device.type != "cuda":
            raise UserError("steps are captured on a GPU alone: leave 'captured' out, or use one")
        found = list(selftest(device, self.recipes, self.paths))
        table = Table(title=f"Fast and plain path on {device.type}: relative differences")
        for name in ("recipe", "path", "loss", "worst gradient", "of", ""):
            table.add_column(name, no_wrap=True)
        for row in found:
            verdict = "agrees" if row.agrees else "DIFFERS"
            numbers = (f"{row.loss:.1e}", f"{row.gradient:.1e}")
            table.add_row(row.recipe, row.path, *numbers, row.parameter, verdict)
        Console(width=None if sys.stdout.isatty() else 140).print(table)
        if wrong := [row for row in found if not row.agrees]:
            first = wrong[0]
            what = (
                f"{first.missing[0]} has a gradient on one of them alone"
                if first.missing
                else (f"loss by {first.loss:.1e}, {first.parameter} by {first.gradient:.1e}")
            )
            raise DisagreementError(
                f"{len(wrong)} of {len(found)} disagree: {first.recipe}, {first.path}: {what}; "
                "train with --plain until it is mended"
            )
        print(f"all {len(found)} agree")
