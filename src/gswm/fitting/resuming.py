"""Resume an interrupted fit: the same settings in the same folder continue its training."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gswm.core.errors import UserError
from gswm.core.files import write_whole
from gswm.train.folder import read_json

ASKED = "fit.json"
"""The file in the folder of a fit with the settings that it was started with."""
CHOICE = "choice"
"""The entry of this file for the comparison of a finished fit with its initial weights."""


def asked_of(video: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A video and the settings of its fit, as JSON holds them."""
    known = video.stat()
    file = {"video": video.name, "bytes": known.st_size, "modified": known.st_mtime_ns}
    return json.loads(json.dumps(file | dict(settings), default=str))


def attempts_in(out: Path) -> dict[int, Path]:
    """The runs that a fit has started, by the number of the attempt."""
    found = {path.name.removeprefix("run-"): path for path in out.glob("run-*")}
    return {
        int(number): path
        for number, path in sorted(found.items())
        if number.isdecimal() and (path / "recipe.json").is_file()
    }


def resumes(out: Path, asked: Mapping[str, Any], *, force: bool) -> bool:
    """Whether a folder has a fit with these settings; raises a UserError for other settings.

    With `force`, a new fit replaces any other.
    """
    if force:
        return False
    file = out / ASKED
    if file.is_file():
        known = read_json(file)
        if isinstance(known, dict) and {k: v for k, v in known.items() if k != CHOICE} == asked:
            return True
    if attempts_in(out):
        raise UserError(
            f"{out} has a fit of another video or with other settings: give another --out, or "
            "--force to replace it"
        )
    return False


def forget(out: Path) -> None:
    """Remove the runs of an earlier fit, and its settings."""
    (out / ASKED).unlink(missing_ok=True)
    for run in attempts_in(out).values():
        shutil.rmtree(run)


def remember(out: Path, asked: Mapping[str, Any], choice: Mapping[str, Any] | None = None) -> None:
    """Store the settings of a fit, once its data are complete, and later which model it keeps."""
    known = dict(asked) if choice is None else {**asked, CHOICE: dict(choice)}
    write_whole(out / ASKED, (json.dumps(known, indent=2) + "\n").encode())
