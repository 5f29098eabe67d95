"""Tables of text, and the formatting of their cells."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gswm.report.results import ResultFile, fails, mean_and_spread

EMPTY, UNMEASURED = "not trained", "not measured"
"""Cells of models and of baselines without a result."""
NOTHING = "–"
"""Placeholder for a missing result."""
FAILED = "fails"
HAS, LACKS = "✓", "✗"
"""Marks of models that have an ability, or lack it."""
N = "n = "
"""Precedes the number of episodes, if only a part of the split was measured."""
HERE = ", here"
"""Suffix of the columns with our results."""
Digits = int | str
"""Decimals of a number; "%" for a percentage."""
Columns = Mapping[str, tuple[str, Digits]]
"""Maps the head of a column to its score and the number of decimals."""


@dataclass(frozen=True)
class Table:
    """A titled table of text, whose first column names the rows."""

    title: str
    text: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def filled(self) -> "Table":
        """The table without rows that have no measurement, and without empty columns."""
        ours = [i for i, name in enumerate(self.head) if name.endswith(HERE)]
        none = {EMPTY, UNMEASURED}
        some = [r for r in self.rows if any(r[i] not in none for i in ours) or not none & set(r)]
        none |= {NOTHING, ""}
        some = [r for r in some if set(r[1:]) - none]
        said = [i for i in range(len(self.head)) if any(r[i] not in none for r in some)]
        rows = tuple(tuple(row[i] for i in said) for row in some)
        return replace(self, head=tuple(self.head[i] for i in said), rows=rows)


def cells(results: Sequence[ResultFile], columns: Columns) -> list[str]:
    """Several scores of a model; without results, only the first cell has text."""
    if not results:
        return [EMPTY, *[""] * (len(columns) - 1)]
    return [cell(results, name, digits) for name, digits in columns.values()]


def cell(results: Sequence[ResultFile], name: str, digits: Digits) -> str:
    """One score, averaged over seeds."""
    if not results:
        return EMPTY
    found = mean_and_spread([m.scores.get(name) for m in results])
    return NOTHING if found is None else number(*found, digits) + partial(results)


def judged(results: Sequence[ResultFile], name: str, digits: Digits) -> str:
    """One score with the number of seeds, marked if the model fails."""
    score = cell(results, name, digits)
    score = score if score == NOTHING else score + seeds(results)
    if not fails(results):
        return score
    return FAILED if score == NOTHING else f"{FAILED}: {score}"


def partial(results: Sequence[ResultFile]) -> str:
    """Suffix with the number of measured episodes; empty if the whole split was measured."""
    if not any(m.is_partial for m in results):
        return ""
    return f", {N}{' + '.join(str(m.episodes) for m in results)}"


def seeds(results: Sequence[ResultFile]) -> str:
    """Suffix with the number of seeds; empty for one."""
    return f" ({len(results)} seeds)" if len(results) > 1 else ""


def number(mean: float, spread: float, digits: Digits) -> str:
    """A mean, with its spread unless that is 0."""
    show: Callable[[float], str] = (
        (lambda x: f"{100 * x:.1f} %") if digits == "%" else (lambda x: f"{x:,.{digits}f}")
    )
    return f"{show(mean)} ± {show(spread)}" if spread else show(mean)


def markdown(table: Table) -> str:
    """A table as a section of Markdown."""
    head = "| " + " | ".join(table.head) + " |"
    rule = "|" + "---|" * len(table.head)
    body = ["| " + " | ".join(row) + " |" for row in table.rows]
    return "\n".join([f"## {table.title}", "", table.text, "", head, rule, *body])
