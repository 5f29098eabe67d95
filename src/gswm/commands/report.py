"""`gswm report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gswm.core.errors import UserError
from gswm.core.files import check_output, check_place
from gswm.report import results, writing
from gswm.viz import formats

HERE = Path("docs/results")
"""The results of a clone."""


@dataclass(frozen=True)
class ReportCommand:
    """Settings of `gswm report`."""

    results: Annotated[Positional[tuple[Path, ...]], arg(metavar="RESULTS")] = ()
    """Files that `gswm eval --json` wrote, or folders of them; docs/results if not given."""
    out: Path = Path("report")
    """The folder for index.html, which needs no other file, and a PNG of each figure."""
    markdown: Path | None = None
    """Write the tables to this file too, and its figures into the folder of its name."""

    def run(self) -> None:
        """Read what was measured, and show it."""
        paths = self.results or (HERE,)
        if not self.results and not HERE.is_dir():
            raise UserError(
                f"there is no folder {HERE} here: name result files written by `gswm eval --json`, "
                "or folders of them"
            )
        check_place(self.out, folder=True)
        writing.check_ours(self.out / "index.html")
        if self.markdown is not None:
            check_output(self.markdown, (".md",))
            writing.check_ours(self.markdown)
        found = results.read(paths)
        if not found.all:
            where = ", ".join(map(str, paths))
            raise UserError(f"there are no results in {where}: `gswm eval --json` writes them")
        formats.make_folder(self.out)
        files = writing.write(found, self.out, self.markdown)
        count = "1 result" if len(found.all) == 1 else f"{len(found.all)} results"
        print(f"{count}: {', '.join(map(str, files))}")
