"""`gswm export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gswm import weights
from gswm.errors import UserError


@dataclass(frozen=True)
class Export:
    """Settings of `gswm export`."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """A run's folder, or a file of weights."""
    out: Path | None = None
    """RUN/NAME.safetensors if it is not given, NAME being the recipe's."""
    half: bool = False
    """In half precision: half the size, for release."""
    which: str = "best"
    """Which of the run's weights: best or last."""

    def run(self) -> None:
        """Write the weights of a run, with the recipe inside."""
        source = self.run_folder
        if source.is_dir():
            source = source / f"{self.which}.safetensors"
        header = weights.read_header(source)
        recipe = header["recipe"]
        out = self.out or self.run_folder / f"{recipe.name}.safetensors"
        if out.resolve() == source.resolve():
            raise UserError(f"{out} is what is to be exported: name another --out")
        weights.save(out, weights.load(source), recipe, half=self.half, about=header["about"])
        print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")
