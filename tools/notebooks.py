"""Run the notebooks in docs/tutorials, and store their outputs.

    python tools/notebooks.py            # all of them, two to three minutes
    python tools/notebooks.py NAME ...   # some of them

A code cell gets what it prints, and the value of its last line, as in Jupyter: a picture if Pillow
made it, text otherwise. Pictures are reduced to a palette, which keeps the files small. The
metadata of a notebook has a checksum of its code, so that a test notices outputs of other code.
"""

import ast
import base64
import hashlib
import io
import json
import os
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from PIL import Image

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
COLORS = 256
"""Palette size of stored pictures."""
Notebook = dict[str, Any]
Output = dict[str, Any]


def main(names: list[str]) -> None:
    """Run notebooks by name, or all of them."""
    for name in names or sorted(file.stem for file in TUTORIALS.glob("*.ipynb")):
        file = TUTORIALS / f"{name}.ipynb"
        notebook = json.loads(file.read_text())
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            outputs = run(notebook, file.name)
            os.chdir(TUTORIALS)
        for number, (cell, made) in enumerate(zip(code_cells(notebook), outputs, strict=True), 1):
            cell.update(execution_count=number, outputs=made)
        notebook["metadata"]["code_sha256"] = checksum(notebook)
        file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
        print(f"{file.name}: {file.stat().st_size / 1e3:.0f} kB")


def code_cells(notebook: Notebook) -> list[dict[str, Any]]:
    """The cells with code, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def checksum(notebook: Notebook) -> str:
    """The SHA-256 of all code."""
    code = "\n\n".join("".join(cell["source"]) for cell in code_cells(notebook))
    return hashlib.sha256(code.encode()).hexdigest()


def run(notebook: Notebook, name: str) -> list[list[Output]]:
    """Run all code in the current folder; return the outputs of each cell."""
    names: dict[str, Any] = {"__name__": "__main__"}
    made = []
    for number, cell in enumerate(code_cells(notebook), 1):
        made.append(outputs_of("".join(cell["source"]), f"{name}, cell {number}", names, number))
    return made


def outputs_of(code: str, where: str, names: dict[str, Any], number: int) -> list[Output]:
    """Run the code of a cell, and return what it prints and the value of its last line."""
    body = ast.parse(code, where)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(body, where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    found: list[Output] = []
    if text := printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": lines(text)})
    if value is not None:
        result = {"output_type": "execute_result", "metadata": {}, "execution_count": number}
        found.append(result | {"data": shown(value)})
    return found


def shown(value: object) -> dict[str, Any]:
    """A value as Jupyter stores it, by MIME type."""
    if not isinstance(value, Image.Image):
        return {"text/plain": lines(repr(value))}
    kept = io.BytesIO()
    value.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(kept, "PNG", optimize=True)
    text = f"<picture of {value.width} × {value.height} pixels>"
    return {"image/png": base64.b64encode(kept.getvalue()).decode(), "text/plain": [text]}


def lines(text: str) -> list[str]:
    """The lines of a text, with their ends."""
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    main(sys.argv[1:])
