"""Write the report: a self-contained HTML page, a PNG of each figure, and Markdown."""

from collections.abc import Mapping
from pathlib import Path

from gswm.core.files import write_whole
from gswm.report import charts, figures
from gswm.report.cells import N, Table, markdown
from gswm.report.charts import Charts
from gswm.report.drawing import Drawing
from gswm.report.page import Section, element, figure, inline, page, table_html
from gswm.report.paper import SOLIDS
from gswm.report.results import Results
from gswm.report.space import ORIGINAL
from gswm.report.tables import tables
from gswm.viz import formats
from gswm.viz.pictures import Picture

COLORS = 128
"""Palette size of PNGs: a third of the file size, without visible loss."""
PHOTOS = (*SOLIDS, "others-stills", "own-stills")
"""Figures with shading, which keep all colors."""
Figures = Mapping[str, Drawing | Charts | Picture]
TITLE = "Results"
LEAD = (
    "Results of this package for G-SWM (Lin et al., ICML 2020) and its baselines, beside the "
    "paper's numbers. The last table lists the command behind each number. Scores cover all test "
    f"episodes; a score marked *{N.strip()}* covers only that many and is preliminary."
)
MARK = "Written by `gswm report`"
"""Part of the last line of each report, which tells reports from a user's other files."""
BESIDE = {
    "own": ("own", "own-stills"),
    "error": ("error", "ways", "silot"),
    "mota": ("tracking",),
    "futures": ("futures",),
    "corridor": ("maze", "corridor"),
    "obj3d": (*SOLIDS, "obj3d-curves"),
    "digits": ("digits",),
    "others": ("others", "others-stills"),
    "trainings": ("learning",),
}
"""The figures that follow a table."""


def is_report(path: Path) -> bool:
    """Whether a file is a report, judged by its last line."""
    if not path.is_file():
        return False
    lines = path.read_text(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return MARK in last or inline(MARK) in last


def write(results: Results, out: Path, text: Path | None = None) -> list[Path]:
    """Write the page and the PNGs to a folder, and Markdown if `text` names a file.

    Without matplotlib, charts are left out.
    """
    made: Figures = figures.figures(results)
    if not charts.can_draw():
        made = {name: each for name, each in made.items() if not isinstance(each, Charts)}
    files = [out / "index.html", *save(made, out)]
    write_whole(out / "index.html", as_page(results, made).encode())
    if text is not None:
        files += [text, *save(made, text.with_suffix(""))]
        write_whole(text, as_text(results, made, text.stem).encode())
    return files


def shown_tables(results: Results) -> dict[str, Table]:
    """The tables with measurements."""
    made = {name: table.filled() for name, table in tables(results).items()}
    return {name: table for name, table in made.items() if is_measured(table)}


def is_measured(table: Table) -> bool:
    """Whether a table has rows of our own, and not only published numbers."""
    return any(not row[0].endswith(ORIGINAL) for row in table.rows)


def as_page(results: Results, made: Figures) -> str:
    """The report as one HTML file."""
    shown = {n: figure(element(each, n), figures.CAPTIONS[n]) for n, each in made.items()}
    sections = []
    for name, table in shown_tables(results).items():
        beside = (shown[each] for each in BESIDE.get(name, ()) if each in shown)
        sections.append(Section(table.title, table.text, (table_html(table), *beside)))
    foot = f"{MARK} from the files of `gswm eval --json`."
    return page(TITLE, LEAD, sections, foot)


def as_text(results: Results, made: Figures, folder: str) -> str:
    """The report as Markdown, with figures in `folder` beside it."""
    parts = [f"# {TITLE}", LEAD]
    for name, table in shown_tables(results).items():
        parts.append(markdown(table))
        for each in BESIDE.get(name, ()):
            if each in made:
                parts.append(f"![{each}]({folder}/{each}.png)\n\n*{figures.CAPTIONS[each]}*")
    parts.append(f"{MARK} from the files that `gswm eval --json` wrote to `{folder}/`.")
    return "\n\n".join(parts) + "\n"


def save(made: Figures, folder: Path) -> list[Path]:
    """Write a PNG of each figure."""
    for name, each in made.items():
        if isinstance(each, Charts):
            from gswm.report import plotting

            picture = plotting.picture(each)
        else:
            picture = each.picture() if isinstance(each, Drawing) else each
        colors = None if name in PHOTOS else COLORS
        formats.save_picture(folder / f"{name}.png", picture, colors)
    return [folder / f"{name}.png" for name in made]
