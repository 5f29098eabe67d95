"""`gswm selftest`."""

from dataclasses import dataclass
from typing import ClassVar

from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.fast.selftest import COMPARED, FastPath, selftest


class DisagreementError(UserError):
    """The fast path and the plain one disagree."""

    code = 1


@dataclass(frozen=True)
class SelfTestCommand:
    """Settings of `gswm selftest`."""

    EXAMPLES: ClassVar = (
        "gswm selftest --device cpu",
        "gswm selftest --device cuda --recipes two-layer maze --paths captured",
    )

    device: str = "auto"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""
    recipes: tuple[str, ...] = COMPARED
    """Recipes to compare, with small models."""
    paths: tuple[FastPath, ...] = ()
    """Fast paths to compare. Default: all on a GPU; deferred on a CPU."""

    def run(self) -> None:
        """Compare, and print a line for each result."""
        device = find_device(self.device)
        if device.type != "cuda" and (wanting := [p for p in self.paths if p != "deferred"]):
            raise UserError(f"'{wanting[0]}' needs a GPU: omit it")
        print(f"Fast and plain path on {device.type}: relative differences")
        found = []
        for row in selftest(device, self.recipes, self.paths):
            verdict = "agrees" if row.agrees else "DIFFERS"
            what = f"{row.recipe:<22} {row.path:<9} {verdict:<7}"
            far = f"loss {row.loss:.1e}  worst gradient {row.gradient:.1e}  {row.parameter}"
            print(f"{what}  {far}", flush=True)
            found.append(row)
        if wrong := [row for row in found if not row.agrees]:
            first = wrong[0]
            what = (
                f"{first.missing[0]} has a gradient on only one of the two paths"
                if first.missing
                else (f"loss by {first.loss:.1e}, {first.parameter} by {first.gradient:.1e}")
            )
            raise DisagreementError(
                f"{len(wrong)} of {len(found)} disagree: {first.recipe}, {first.path}: {what}; "
                "train with --plain until it is fixed"
            )
        print(f"all {len(found)} agree")
