"""Adds the bill of materials to the wheel, and writes it beside the wheel."""

import json
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "tools"))
from sbom import sbom


class BillOfMaterials(BuildHookInterface):
    """Writes gswm.cdx.json."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write it before the wheel is packed; an editable install has none."""
        if version == "editable":
            return
        file = Path(self.directory) / "gswm.cdx.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(sbom(), indent=1) + "\n")
        build_data["sbom_files"].append(str(file))
