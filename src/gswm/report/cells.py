"""Cells: scores as words, the rows that they make up, and tables as text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gswm.report.results import ResultFile, fails, mean_and_spread

EMPTY, UNMEASURED = "not trained", "not measured"
"""Of a model, and of a rule, without a result."""
NOTHING = "–"
"""Placeholder for a missing result."""
FAILED = "fails"
HAS, LACKS = "✓", "✗"
"""Before the score of a model that has an ability, or lacks it."""
N = "n = "
"""Before the number of episodes, where not all of a split were measured."""
HERE = ", here"
"""Suffix of the columns with our results."""
Digits = int | str
"""Digits shown of a number; "%" for a percentage."""
Columns = Mapping[str, tuple[str, Digits]]
"""Head of a column, its score, and the number of digits."""


@dataclass(frozen=True)
class Table:
    """Rows of words; the first column names what the row is about."""

    title: str
    text: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def filled(self) -> "Table":
        """The rows in which something was measured, and the columns that say anything of them."""
        ours = [i for i, name in enumerate(self.head) if name.endswith(HERE)]
        none = {EMPTY, UNMEASURED}
        some = [r for r in self.rows if any(r[i] not in none for i in ours) or not none & set(r)]
        none |= {NOTHING, ""}
        some = [r for r in some if set(r[1:]) - none]
        said = [i for i in range(len(self.head)) if any(r[i] not in none for r in some)]
        rows = tuple(tuple(row[i] for i in said) for row in some)
        return replace(self, head=tuple(self.head[i] for i in said), rows=rows)


def cells(results: Sequence[ResultFile], columns: Columns) -> list[str]:
    """Several scores of the same; of nothing, the first cell says so."""
    if not results:
        return [EMPTY, *[""] * (len(columns) - 1)]
    return [cell(results, name, digits) for name, digits in columns.values()]


def cell(results: Sequence[ResultFile], name: str, digits: Digits) -> str:
    """A score, over seeds if there are several."""
    if not results:
        return EMPTY
    found = mean_and_spread([m.scores.get(name) for m in results])
    return NOTHING if found is None else number(*found, digits) + partial(results)


def judged(results: Sequence[ResultFile], name: str, digits: Digits) -> str:
    """A score, over how many seeds, and beside it that the model fails, if it does."""
    score = cell(results, name, digits)
    score = score if score == NOTHING else score + seeds(results)
    if not fails(results):
        return score
    return FAILED if score == NOTHING else f"{FAILED}: {score}"


def partial(results: Sequence[ResultFile]) -> str:
    """The number of measured episodes, to follow a score; empty for a whole split."""
    if not any(m.is_partial for m in results):
        return ""
    return f", {N}{' + '.join(str(m.episodes) for m in results)}"


def seeds(results: Sequence[ResultFile]) -> str:
    """The number of seeds, to follow a name or a score; empty for one."""
    return f" ({len(results)} seeds)" if len(results) > 1 else ""


def number(mean: float, spread: float, digits: Digits) -> str:
    """A mean, and a spread if there is one: as a percentage, or with so many digits."""
    show: Callable[[float], str] = (
        (lambda x: f"{100 * x:.1f} %") if digits == "%" else (lambda x: f"{x:,.{digits}f}")
    )
    return f"{show(mean)} ± {show(spread)}" if spread else show(mean)


def markdown(table: Table) -> str:
    """As a section of a text."""
    head = "| " + " | ".join(table.head) + " |"
    rule = "|" + "---|" * len(table.head)
    body = ["| " + " | ".join(row) + " |" for row in table.rows]
    return "\n".join([f"## {table.title}", "", table.text, "", head, rule, *body])
