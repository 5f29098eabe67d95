"""What a build of the wheel adds: the bill of materials, in it and beside it."""

import json
import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BillOfMaterials(BuildHookInterface):
    """Writes gswm.cdx.json."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make it, before the wheel is packed; an editable install has none."""
        if version == "editable":
            return
        sbom = runpy.run_path(str(Path(self.root) / "tools" / "sbom.py"))["sbom"]
        file = Path(self.directory) / "gswm.cdx.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(sbom(), indent=1) + "\n")
        build_data["sbom_files"].append(str(file))
