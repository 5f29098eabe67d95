"""`gswm report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from gswm.core.errors import UserError
from gswm.core.files import check_folder, check_new, check_output, make_folder
from gswm.core.waiting import tell
from gswm.core.words import counted, install
from gswm.report import results, writing
from gswm.report.charts import can_draw
from gswm.report.figures import CAPTIONS


@dataclass(frozen=True)
class ReportCommand:
    """Settings of `gswm report`."""

    EXAMPLES: ClassVar = (
        "gswm report result.json",
        "gswm report docs/results --out report --markdown results.md",
    )

    results: Annotated[Positional[tuple[Path, ...]], arg(metavar="[RESULTS...]")] = ()
    """Results of `gswm eval --json`, or folders of them. Default: docs/results."""
    out: Path = Path("report")
    """Output folder for a self-contained index.html and a PNG of each figure."""
    markdown: Path | None = None
    """Also write the tables to this Markdown file, with the figures in a folder of the same name.
    """
    force: bool = False
    """Overwrite files that `gswm report` did not write."""

    def run(self) -> None:
        """Read the results, and write the report."""
        paths = self.results or (results.HERE,)
        if not self.results and not results.HERE.is_dir():
            raise UserError(
                f"there is no folder {results.HERE}: specify results of `gswm eval --json`, or "
                "folders of them"
            )
        names = ("index.html", *(f"{name}.png" for name in CAPTIONS))
        ours = self.force or writing.is_report(self.out / "index.html")
        check_folder(self.out, names, force=ours)
        if self.markdown is not None:
            ours = self.force or writing.is_report(self.markdown)
            check_output(self.markdown, (".md",), force=ours)
            for name in CAPTIONS:
                check_new(self.markdown.with_suffix("") / f"{name}.png", force=ours)
        found = results.read(paths)
        if not found.all:
            where = ", ".join(map(str, paths))
            raise UserError(f"there are no results in {where}: `gswm eval --json` writes them")
        if not can_draw():
            tell(f"the report has no charts, which need matplotlib: {install('report')}")
        make_folder(self.out)
        files = writing.write(found, self.out, self.markdown)
        print(f"{counted(len(found.all), 'result')}: {', '.join(map(str, files))}")
