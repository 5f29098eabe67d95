"""Commands obey the rule of `rule.py` in separate processes."""

from pathlib import Path

import material
import pytest
import strategies
from hypothesis import given
from rule import check, run_process
from strategies import tries


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The material of all cases."""
    return material.make(tmp_path_factory.mktemp("material"))


@tries(1 / 40)
@given(words=strategies.command_lines(tuple(strategies.WORDS)))
def test_processes(there: Path, words: list[str]) -> None:
    with material.copied(there) as folder:
        check(run_process(words), folder)
