"""Messages: any input becomes a valid record, or a one-line error."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gswm.core.errors import UserError
from gswm.studio import protocol
from gswm.studio.protocol import Change, Edit, Open, decode, encode, parse

EDIT = {"type": "edit", "branch": 0, "frame": 3, "change": {"kind": "move", "id": 1, "xy": [0, 0]}}
LONG = 10**4000
"""An integer that no float can hold."""
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([LONG, -LONG])
    | st.floats()
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def fields(value: object, path: tuple = ()) -> list[tuple]:
    """The paths of all values in a message."""
    if not isinstance(value, dict):
        return [path]
    return [path, *(found for key, inner in value.items() for found in fields(inner, (*path, key)))]


def parsed(data: str | bytes) -> protocol.Message | None:
    """The message; None if it causes a one-line error."""
    said = ""
    try:
        return parse(data)
    except UserError as error:
        said = str(error)
    assert len(said.splitlines()) == 1
    return None


@given(st.text() | st.binary() | JSON.map(json.dumps))
def test_anything_is_a_message_or_one_line(data: str | bytes) -> None:
    assert parsed(data) is None or isinstance(parsed(data), protocol.Message)


@settings(max_examples=150)
@given(st.data())
def test_a_message_with_one_value_replaced_is_in_range_or_one_line(data: st.DataObject) -> None:
    whole = {
        "type": "open", "model": "m", "world": "w", "episode": 0, "current": 0,
        "settings": {"given": 4, "steps": 5, "futures": 2, "sample": True, "seed": 1},
    }  # fmt: skip
    message = json.loads(json.dumps(data.draw(st.sampled_from([whole, EDIT]))))
    *path, last = data.draw(st.sampled_from(fields(message)[1:]))
    inner = message
    for key in path:
        inner = inner[key]
    inner[last] = data.draw(JSON)
    found = parsed(json.dumps(message))
    if isinstance(found, Open):
        assert 1 <= found.settings.futures <= protocol.MOST_FUTURES
        assert 1 <= found.settings.steps <= protocol.MOST_STEPS
    if isinstance(found, Edit):
        assert all(np.isfinite([*found.change.xy, *found.change.velocity, found.change.depth]))


def test_an_edit_is_what_it_says() -> None:
    assert parse(json.dumps(EDIT)) == Edit(0, 3, Change("move", 1, xy=(0.0, 0.0)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "must be a JSON object"),
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ('{"type": "shout"}', "must have a type"),
        (" " * (protocol.LONGEST + 1), "at most"),
        (json.dumps(EDIT | {"frame": True}), "frame: expected int"),
        (
            json.dumps(EDIT | {"change": {"kind": "move", "id": 1, "xy": [0]}}),
            "change.xy: expected",
        ),
        (json.dumps(EDIT | {"change": {"kind": "move", "id": 1}}), "change.xy: missing"),
        (json.dumps(EDIT | {"change": {"kind": "jump", "id": 1}}), "change.kind: invalid"),
        (json.dumps(EDIT).replace("[0, 0]", "[NaN, 0]"), "must be JSON"),
        (json.dumps(EDIT).replace("[0, 0]", "[0, -3]"), r"change.xy\[1\]: expected float >= -2"),
        (json.dumps(EDIT).replace("[0, 0]", f"[0, -{LONG}]"), "change.xy|must be JSON"),
        (json.dumps(EDIT | {"frame": LONG}), "frame: expected|must be JSON"),
    ],
)
def test_a_bad_message_is_one_line(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse(text)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.text(max_size=20))
def test_what_is_encoded_is_decoded(shape: list[int], text: str) -> None:
    generator = np.random.default_rng(0)
    floats = generator.normal(size=shape).astype(np.float32)
    bytes_ = generator.integers(0, 256, shape, dtype=np.uint8)
    message = encode({"type": text, "n": [1, None]}, objects=floats, pixels=bytes_)
    head, arrays = decode(message)
    assert head == {"type": text, "n": [1, None]}
    assert np.array_equal(arrays["objects"], floats)
    assert np.array_equal(arrays["pixels"], bytes_)
    assert int.from_bytes(message[:4], "little") % 4 == 0
