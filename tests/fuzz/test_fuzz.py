"""Commands obey the rule of `rule.py` for random bad input.

`make test` tries a few cases; `make fuzz` tries 20,000.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import material
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from rule import check, run_here
from strategies import tries
from training import SmallTrunk

import gswm.cli
from gswm.core.errors import UserError
from gswm.models.gswm import discovery
from gswm.studio import protocol


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The material of all cases; its model has a small trunk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discovery, "Trunk", SmallTrunk)
        yield material.make(tmp_path_factory.mktemp("material"))


@pytest.fixture(scope="module", autouse=True)
def parsed_only() -> Any:
    """Only parse the settings of commands that take long."""
    real = gswm.cli.parse

    class Parsed:
        def run(self) -> int:
            return 0

    def parse(name: str, args: list[str]) -> Any:
        found = real(name, args)
        return Parsed() if name in strategies.PARSED else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gswm.cli, "parse", parse)
        yield


@tries(0.3)
@given(words=strategies.command_lines())
def test_command_lines(there: Path, words: list[str]) -> None:
    with material.copied(there) as folder:
        check(run_here(words), folder)


@tries(0.2)
@given(data=st.data())
def test_headers(there: Path, data: st.DataObject) -> None:
    header = data.draw(strategies.headers(there / material.MODEL))
    words = data.draw(st.sampled_from(("track", "export", "imagine")))
    with material.copied(there, material.MODEL, "film.mkv") as folder:
        strategies.write_weights(folder / material.MODEL, header)
        check(run_here([words, *strategies.WORDS[words]]), folder)


@tries(0.2)
@given(data=st.data())
def test_trees(there: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(material.LAYOUTS)))
    changes = data.draw(strategies.grafts(there / name))
    words = data.draw(
        st.sampled_from(
            (
                ["data", "info", name],
                ["data", "show", name, "--out", "new.png"],
                ["data", "look", name],
                ["track", name, "--model", material.MODEL, "--out", "new.csv", "--frames", "2"],
            )
        )
    )
    with material.copied(there, name, material.MODEL) as folder:
        with h5py.File(folder / name, "r+") as file:
            for change in changes:
                change.apply(file)
        check(run_here(words), folder)


@tries(0.1)
@given(text=strategies.messages())
def test_messages(text: str) -> None:
    try:
        found = protocol.parse(text)
    except UserError:
        return
    assert type(found).__module__ == protocol.__name__


@tries(0.2)
@given(data=st.data())
def test_videos(there: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(material.CODECS)))
    content = data.draw(strategies.damaged((there / name).read_bytes()))
    more = data.draw(st.sampled_from(([], ["--allow-damaged"], ["--fps", "7"])))
    words = ["data", "import", name, "--out", "new.hdf5", "--size", "8", "--frames", "4", *more]
    words = data.draw(st.sampled_from((words, ["data", "look", name])))
    with material.copied(there, name) as folder:
        (folder / name).write_bytes(content)
        check(run_here(words), folder)
