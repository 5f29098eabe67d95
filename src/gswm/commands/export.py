"""`gswm export`."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from tyro.conf import Positional, arg

import gswm
from gswm.core.errors import UserError
from gswm.core.files import check_folder, check_output, make_folder, write_whole
from gswm.core.waiting import tell
from gswm.data.worlds.registry import base_name
from gswm.models.recipe import Recipe
from gswm.train.folder import RunFolder, read_json
from gswm.weights import card, hub
from gswm.weights import files as weights
from gswm.weights.encoding import COMPACT
from gswm.weights.finding import find

RUN = ("best", "last")
CONFIG, CARD = "config.json", "README.md"


@dataclass(frozen=True)
class ExportCommand:
    """Settings of `gswm export`."""

    EXAMPLES: ClassVar = (
        "gswm export runs/two-layer-0",
        "gswm export runs/two-layer-0 --compact --out two-layer.safetensors",
        "gswm export two-layer --hub hub/two-layer",
    )

    source: Annotated[Positional[str], arg(metavar="RUN|WEIGHTS|NAME")]
    """Model to export: a run folder, a weights file, or the name of a shipped model."""
    out: Path | None = None
    """Output file. Default: NAME.safetensors, where NAME is that of the recipe, in the run folder;
    for other weights, in the current folder."""
    half: bool = False
    """Store the weights in half precision. Without --half and --compact, the encoding of the source
    is kept: 32 bits for a run."""
    compact: bool = False
    """Store the weights in 8 bits where accuracy permits, and in half precision elsewhere."""
    hub: Path | None = None
    """Write a folder for a model hub instead: weights, config and model card."""
    license: str = "apache-2.0"
    """With --hub: SPDX identifier of the license of the weights."""
    which: Literal["best", "last"] | None = None
    """Weights of the run to export. Default: best; last if the run has not been validated yet."""
    scores: Path | None = None
    """Result of `gswm eval --json` for these weights, to store in the file and the model card. For
    named models, docs/results/ in a clone of gswm has them."""
    force: bool = False
    """Overwrite output files that exist."""

    def run(self) -> None:
        """Write the weights of a run, with the recipe inside."""
        if self.half and self.compact:
            raise UserError("use either --half or --compact")
        if self.hub is not None and self.out is not None:
            raise UserError("use either --out or --hub")
        source = self.weights()
        header = weights.read_header(source)
        recipe = without_folder(header["recipe"])
        run = Path(self.source) if Path(self.source).is_dir() else None
        if self.hub is None:
            out = self.out or (run or Path()) / f"{file_name(recipe)}.safetensors"
            kept = [] if run is None else [run / f"{name}.safetensors" for name in RUN]
            check_output(out, (".safetensors",), [source, *kept], force=self.force)
        else:
            out = self.hub / hub.FILE
            check_folder(self.hub, (out.name, CONFIG, CARD), force=self.force, option="--hub")
            check_license(self.license)
        about = header["about"] | self.more(run, header)
        kept_as = weights.encoding_in(source) if not (self.half or self.compact) else None
        half = self.half or kept_as == "float16"
        compact = self.compact or kept_as in COMPACT
        model = weights.load(source)
        if self.hub is not None:
            make_folder(self.hub)
        weights.save(out, model, recipe, half=half, compact=compact, about=about)
        size = out.stat().st_size
        if self.hub is not None:
            known = {"recipe": recipe, "about": about}
            encoding = weights.encoding_in(out)
            text = card.card(known, model, encoding, size, self.license)
            write_whole(self.hub / CONFIG, card.config(known, encoding, gswm.__version__).encode())
            write_whole(self.hub / CARD, text.encode())
        print(f"{out}: {size / 1e6:.1f} MB")

    def weights(self) -> Path:
        """The file to read."""
        run = Path(self.source)
        if not run.is_dir():
            return find(self.source)
        if self.which is None:
            source = find(self.source)
            if source == run / f"{RUN[1]}.safetensors":
                tell(f"{run} has no {RUN[0]}.safetensors: exporting the last weights")
            return source
        source = run / f"{self.which}.safetensors"
        if not source.is_file():
            written = {"best": "after a validation", "last": "when it ends or is stopped"}
            raise UserError(
                f"{run} has no {source.name}, which training writes {written[self.which]}: omit "
                f"--which {self.which}"
            )
        return source

    def more(self, run: Path | None, header: dict[str, Any]) -> dict[str, Any]:
        """Facts that the weights do not contain yet."""
        found: dict[str, Any] = {}
        if run is not None and (starts := RunFolder(run).starts()):
            found |= {key: starts[-1].get(key) for key in ("commit", "device")}
        if self.scores is not None:
            found |= scores_of(self.scores, header)
        return found


def check_license(license_id: str) -> None:
    """Raise a UserError for an invalid license identifier."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", license_id):
        raise UserError(
            f"--license is '{license_id}'; it must be an SPDX identifier such as apache-2.0"
        )


def file_name(recipe: Recipe) -> str:
    """The name of an untrusted recipe, if it can be a file name."""
    if not re.fullmatch(r"[\w-][\w.-]*", recipe.name):
        raise UserError(
            f"the recipe in these weights is called '{recipe.name}', which cannot be a file name: "
            "use --out"
        )
    return recipe.name


def scores_of(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    """Read a file of `gswm eval --json`, if it belongs to the weights of this header.

    Returns:
        The scores as `test`, and the settings of the evaluation as `measured`.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        held = read_json(path)
        scores, model = dict(held["scores"]), held["model"]
        theirs = model.get("recipe"), *which(model.get("about", {}))
        measured = {name: held.get(name) for name in ("episodes", "seed", "command", "commit")}
        measured["protocol"] = held.get("protocol", {}).get("name")
        measured["world"] = Path(held.get("data", {}).get("world", "")).name
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f": it has no {error}" if isinstance(error, KeyError) else ""
        raise UserError(f"{path} is not a result of `gswm eval --json`{reason}") from error
    ours = header["recipe"].name, *which(header["about"])
    if theirs != ours:
        other, these = (f"{name}, step {step}, seed {seed}" for name, step, seed in (theirs, ours))
        raise UserError(
            f"{path} has scores of other weights ({other}), not of these "
            f"({these}): evaluate these with `gswm eval --json`"
        )
    return {"test": scores, "measured": measured}


def which(about: dict[str, Any]) -> tuple[Any, Any]:
    """The step and the seed of weights."""
    return about.get("step"), about.get("seed")


def without_folder(recipe: Recipe) -> Recipe:
    """The recipe without the folder of its world's scene files, which differs between machines."""
    return replace(recipe, data=replace(recipe.data, world=base_name(recipe.data.world)))
