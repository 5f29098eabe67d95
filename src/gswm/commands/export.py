"""`gswm export`."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from gswm.core.errors import UserError
from gswm.core.files import check_output
from gswm.data.worlds.registry import base_name
from gswm.models.recipe import Recipe
from gswm.train.folder import RunFolder, read_json
from gswm.weights import files as weights


@dataclass(frozen=True)
class ExportCommand:
    """Settings of `gswm export`."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """A run's folder, or a file of weights."""
    out: Path | None = None
    """RUN/NAME.safetensors if it is not given, NAME being the recipe's."""
    half: bool = False
    """In half precision: half the size, for release."""
    which: Literal["best", "last"] = "best"
    """Which of the run's weights."""
    scores: Path | None = None
    """What `gswm eval --json` wrote of these weights, to be kept with them."""
    force: bool = False
    """Replace the file if it exists."""

    def run(self) -> None:
        """Write the weights of a run, with the recipe inside."""
        source = self.run_folder
        there = [source / f"{which}.safetensors" for which in ("best", "last")]
        if source.is_dir():
            source = source / f"{self.which}.safetensors"
            if not source.is_file():
                other = "last" if self.which == "best" else "best"
                there = (source.with_name(f"{other}.safetensors")).is_file()
                hint = f"take --which {other}" if there else "it has none yet"
                raise UserError(f"{self.run_folder} has no {source.name}: {hint}")
        header = weights.read_header(source)
        recipe = without_folder(header["recipe"])
        out = self.out or self.run_folder / f"{file_name(recipe)}.safetensors"
        check_output(out, (".safetensors",), [source, *there], force=self.force)
        about = header["about"] | self.more(header)
        weights.save(out, weights.load(source), recipe, half=self.half, about=about)
        print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")

    def more(self, header: dict[str, Any]) -> dict[str, Any]:
        """What the weights do not say themselves."""
        found: dict[str, Any] = {}
        if starts := RunFolder(self.run_folder).starts():
            found |= {key: starts[-1].get(key) for key in ("commit", "device")}
        if self.scores is not None:
            found["test"] = scores_of(self.scores, header)
        return found


def file_name(recipe: Recipe) -> str:
    """The name of a recipe, which may come from anywhere, if it can be that of a file."""
    if not re.fullmatch(r"[\w-][\w.-]*", recipe.name):
        raise UserError(
            f"the recipe in these weights is called '{recipe.name}', which is no name for a file: "
            "give --out"
        )
    return recipe.name


def scores_of(path: Path, header: dict[str, Any]) -> dict[str, float | None]:
    """The scores in a file of `gswm eval --json`, if they are of the weights of this header."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        held = read_json(path)
        scores, model = dict(held["scores"]), held["model"]
        theirs = model.get("recipe"), *which(model.get("about", {}))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f": it has no {error}" if isinstance(error, KeyError) else ""
        raise UserError(f"{path} is not what `gswm eval --json` writes{reason}") from error
    ours = header["recipe"].name, *which(header["about"])
    if theirs != ours:
        other, these = (f"{name}, step {step}, seed {seed}" for name, step, seed in (theirs, ours))
        raise UserError(
            f"{path} has scores of other weights ({other}) than these ({these}): "
            "measure these with `gswm eval --json`"
        )
    return scores


def which(about: dict[str, Any]) -> tuple[Any, Any]:
    """The step and the seed of weights."""
    return about.get("step"), about.get("seed")


def without_folder(recipe: Recipe) -> Recipe:
    """The recipe of a world, wherever the files of its scenes lay: others have other folders."""
    return replace(recipe, data=replace(recipe.data, world=base_name(recipe.data.world)))
