"""The report as files: a page with everything in it, a PNG of each figure, and a text."""

from pathlib import Path

from gswm.core.files import write_whole
from gswm.report import figures
from gswm.report.cells import N, Table, markdown
from gswm.report.charts import Charts
from gswm.report.drawing import Drawing
from gswm.report.page import Section, element, figure, inline, page, table_html
from gswm.report.results import Results
from gswm.report.space import ORIGINAL
from gswm.report.tables import tables
from gswm.viz import formats
from gswm.viz.pictures import Picture

COLORS = 128
"""Of a PNG: a third of the size, and nobody sees it."""
PHOTOS = ("obj3d", "others-stills")
"""Figures with light and shade, which keep all of their colors."""
Figures = dict[str, Drawing | Charts | Picture]
TITLE = "Results"
LEAD = (
    "G-SWM (Lin et al., ICML 2020) and what it is compared with, as measured by this package, "
    "beside what the paper says. "
    "Every number has its command. Scores are of all test episodes; where they are of fewer, "
    f"*{N.strip()}* says of how many, and they are a glance, not a result."
)
MARK = "Written by `gswm report`"
"""In the last line of what is written, so that nothing of somebody else is replaced."""
BESIDE = {
    "error": ("error", "ways", "silot"),
    "mota": ("tracking",),
    "futures": ("futures",),
    "corridor": ("maze", "corridor"),
    "obj3d": ("obj3d", "obj3d-curves"),
    "digits": ("digits",),
    "others": ("others", "others-stills"),
    "trainings": ("learning",),
}
"""The figures that follow a table."""


def is_report(path: Path) -> bool:
    """Whether a report wrote a file, by its last line."""
    if not path.is_file():
        return False
    lines = path.read_text(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return MARK in last or inline(MARK) in last


def write(results: Results, out: Path, text: Path | None = None) -> list[Path]:
    """The page and the PNGs into a folder, and the text if it has a name."""
    made = figures.figures(results)
    files = [out / "index.html", *save(made, out)]
    write_whole(out / "index.html", as_page(results, made).encode())
    if text is not None:
        files += [text, *save(made, text.with_suffix(""))]
        write_whole(text, as_text(results, made, text.stem).encode())
    return files


def shown_tables(results: Results) -> dict[str, Table]:
    """The tables in which something was measured; first those that are no experiment's of a paper.

    These are the user's own runs.
    """
    made = {name: table.filled() for name, table in tables(results).items()}
    own = {name: made.pop(name) for name in ("others",) if name in made}
    if any(not m.is_rule and not m.is_of_paper for m in results.all):
        made = own | made
    else:
        made |= own
    return {name: table for name, table in made.items() if is_measured(table)}


def is_measured(table: Table) -> bool:
    """Whether a table has a row of ours, and not those of papers alone."""
    return any(not row[0].endswith(ORIGINAL) for row in table.rows)


def as_page(results: Results, made: Figures) -> str:
    """Everything in one file."""
    shown = {n: figure(element(each, n), figures.CAPTIONS[n]) for n, each in made.items()}
    sections = []
    for name, table in shown_tables(results).items():
        beside = (shown[each] for each in BESIDE.get(name, ()) if each in shown)
        sections.append(Section(table.title, table.text, (table_html(table), *beside)))
    foot = f"{MARK} from the files of `gswm eval --json`."
    return page(TITLE, LEAD, sections, foot)


def as_text(results: Results, made: Figures, folder: str) -> str:
    """The tables as Markdown; figures are in `folder`, beside it."""
    parts = [f"# {TITLE}", LEAD]
    for name, table in shown_tables(results).items():
        parts.append(markdown(table))
        for each in BESIDE.get(name, ()):
            if each in made:
                parts.append(f"![{each}]({folder}/{each}.png)\n\n*{figures.CAPTIONS[each]}*")
    parts.append(f"{MARK} from what `gswm eval --json` wrote to `{folder}/`.")
    return "\n\n".join(parts) + "\n"


def save(made: Figures, folder: Path) -> list[Path]:
    """A PNG of each."""
    from gswm.report import plotting

    for name, each in made.items():
        if isinstance(each, Charts):
            picture = plotting.picture(each)
        else:
            picture = each.picture() if isinstance(each, Drawing) else each
        colors = None if name in PHOTOS else COLORS
        formats.save_picture(folder / f"{name}.png", picture, colors)
    return [folder / f"{name}.png" for name in made]
