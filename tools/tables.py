"""Write the tables of scores in README.md and docs/model-zoo.md from docs/results/*.json.

    python tools/tables.py     # `make results` runs this too

A table stands between `<!-- NAME -->` and `<!-- end -->`, where NAME is `results`, `zoo` (G-SWM's
models) or `all models`.
"""

import re
from pathlib import Path

from gswm.report import paper
from gswm.report.cells import FAILED, cell, seeds
from gswm.report.results import MAIN, ResultFile, fails, main_score, read, recipe_of

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "model-zoo.md")
NONE = "–"
Known = dict[str, ResultFile]
"""Results of the models in weights/, by name."""


def known() -> Known:
    """Read the result of every model in weights/ that has one."""
    names = [file.stem for file in sorted((ROOT / "weights").glob("*.safetensors"))]
    folder = ROOT / "docs" / "results"
    # Some results have the number of measured episodes in their names.
    files = {
        name: [*folder.glob(f"{name}.json"), *folder.glob(f"{name}-[0-9]*.json")] for name in names
    }
    return {name: read(found[:1]).all[0] for name, found in files.items() if found}


def zoo_row(name: str, result: ResultFile) -> list[str]:
    """One model of the zoo."""
    key = main_score(result.scores, result.world) or "center_error"
    size = (ROOT / "weights" / f"{name}.safetensors").stat().st_size / 1e6
    about = result.about
    minutes = None if about.get("device") == "cpu" else about.get("minutes")
    return [
        *(model_name(name, result), result.world, MAIN[key]),
        here(result) if result.world in paper.BALLS else cell([result], key, 3),
        said(result.model, result.world),
        *(f"{size:.1f}", NONE if minutes is None else f"{minutes:.0f}", f"`{result.command}`"),
    ]


def model_name(name: str, result: ResultFile) -> str:
    """The model, and which ablation of it."""
    world, is_ablation, part = name.partition("-no-")
    if is_ablation:
        return f"{result.model} without {part.upper()}"
    return f"{result.model}-D" if world == "single-ball-d" else result.model


def here(result: ResultFile) -> str:
    """The center error, unless the model tracks too badly for it to mean anything."""
    return "fails" if fails([result]) else f"{result.scores['center_error']:.3f}"


def said(model: str, world: str) -> str:
    """The paper's center error."""
    if (world, model) in paper.FAILS:
        return "fails"
    found = paper.CENTER_ERROR.get((world, model))
    return NONE if found is None else f"{found.mean:.3f} ± {found.spread:.3f}"


def zoo(models: Known) -> list[str]:
    """The models with their scores, sizes and cost."""
    head = ["model", "dataset", "score", "here", "paper", "MB", "GPU minutes", "measured by"]
    return table([head, *(zoo_row(name, result) for name, result in models.items())])


def results(models: Known) -> list[str]:
    """The center errors in the paper's worlds of balls, theirs and ours, over all seeds."""
    found = read([ROOT / "docs" / "results"])
    columns = [f"{model}, {where}" for model in paper.TABULATED for where in ("paper", "here")]
    rows = [["center error", *columns, "objects G-SWM finds"]]
    for world, objects in paper.BALLS.items():
        row = [world]
        for model in paper.TABULATED:
            ours = found.of(model, recipe_of(model, world))
            error = FAILED if fails(ours) else cell(ours, "center_error", 3) + seeds(ours)
            row += [said(model, world), error]
        rows.append([*row, f"{models[world].scores['objects']:.2f} of {objects}"])
    return table(rows)


def table(rows: list[list[str]]) -> list[str]:
    """Lines of Markdown; the first row is the head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def filled(text: str) -> str:
    """The text of a page with up-to-date tables."""
    models = known()
    ours = {name: m for name, m in models.items() if m.model == "G-SWM" and name == m.world}
    tables = {
        "results": results(models),
        "zoo": zoo(ours),
        "all models": zoo(dict(sorted(models.items(), key=lambda each: each[1].model))),
    }
    for name, lines in tables.items():
        held = "\n".join(["", *lines, "", ""])
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        text = re.sub(pattern, lambda m, held=held: m[1] + held + m[2], text, flags=re.S)
    return text


def main() -> None:
    """Write the pages."""
    for page in PAGES:
        page.write_text(filled(page.read_text()))


if __name__ == "__main__":
    main()
