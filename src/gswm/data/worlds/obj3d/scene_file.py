"""Scene files: small HDF5 files for machines without MuJoCo.

Keys are the fields of `Scenes`, with those of its contacts in a group; attributes are `split`,
`seed` and the `settings` as JSON, including the camera. The same scenes give the same bytes.
"""

import io
import json
from dataclasses import dataclass, fields
from pathlib import Path

import h5py
import numpy as np

from gswm.core.errors import UserError
from gswm.core.files import check_new, check_regular, write_whole
from gswm.core.settings import from_dict, to_dict
from gswm.data.worlds.base import SplitName
from gswm.data.worlds.obj3d.layout import SCENES
from gswm.data.worlds.obj3d.scenes import Contacts, Scenes
from gswm.data.worlds.obj3d.settings import SHADOWS, Settings

ARRAYS = [f.name for f in fields(Scenes) if f.name != "contacts"]
CONTACTS = [f.name for f in fields(Contacts)]


@dataclass(frozen=True)
class SceneFile:
    """Content of a scene file."""

    scenes: Scenes
    settings: Settings
    split: SplitName
    seed: int


def save(path: Path, held: SceneFile, *, force: bool = False) -> None:
    """Write a scene file."""
    check_new(path, force=force)
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        file.attrs.update(format=SCENES, split=held.split, seed=held.seed)
        file.attrs["settings"] = json.dumps(to_dict(held.settings))
        stored = {name: getattr(held.scenes, name) for name in ARRAYS}
        stored |= {f"contacts/{name}": getattr(held.scenes.contacts, name) for name in CONTACTS}
        for name, array in stored.items():
            if array.size:
                file.create_dataset(name, data=array, compression=6, shuffle=True)
            else:
                file.create_dataset(name, data=array)
    write_whole(path, memory.getvalue())


def load(path: Path) -> SceneFile:
    """Read a scene file."""
    check_regular(path)
    try:
        with h5py.File(path, "r") as file:
            if file.attrs.get("format") != SCENES:
                raise UserError(f"{path} is not a scene file; `gswm data scenes` creates one")
            arrays = {name: np.asarray(file[name]) for name in ARRAYS}
            contacts = Contacts(*(np.asarray(file[f"contacts/{name}"]) for name in CONTACTS))
            about = json.loads(str(file.attrs["settings"]))
            if (
                "look" not in about
            ):  # files of 0.1.0 lack settings, which take their values of that version
                about = to_dict(SHADOWS) | about
            settings = from_dict(Settings, about, f"{path}: settings")
            split, seed = str(file.attrs["split"]), int(np.asarray(file.attrs["seed"]))
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist") from error
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path} cannot be read as a scene file; create it again") from error
    if split not in ("train", "val", "test"):
        raise UserError(f"{path}: its split is '{split}'; expected train, val or test")
    return SceneFile(Scenes(**arrays, contacts=contacts), settings, split, seed)
