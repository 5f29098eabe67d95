"""Adds the weights and the bill of materials to the wheel, and writes the bill beside the wheel."""

import json
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "tools"))
import wheel_weights
from sbom import sbom


class WheelContents(BuildHookInterface):
    """Chooses the weights, and writes catalog.json and gswm.cdx.json."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Prepare all of it before the wheel is packed; an editable install needs none."""
        if version == "editable":
            return
        places = {str(file): place for file, place in wheel_weights.included().items()}
        catalog = self.write("catalog.json", wheel_weights.catalog())
        places[catalog] = f"{wheel_weights.FOLDER}/catalog.json"
        build_data["force_include"].update(places)
        build_data["sbom_files"].append(self.write("gswm.cdx.json", sbom()))

    def write(self, name: str, content: Any) -> str:
        """Write JSON into the folder of the wheel."""
        file = Path(self.directory) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=1) + "\n")
        return str(file)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel and of no use beside it."""
        (Path(self.directory) / "catalog.json").unlink(missing_ok=True)
