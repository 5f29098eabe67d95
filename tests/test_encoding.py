"""Weights in 8 and 3 bits: the error of each value has a bound, and files say how to read them."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tiny import SIZES

from gswm.core.errors import UserError
from gswm.models.base import WorldModel
from gswm.models.registry import build, recipe
from gswm.weights import encoding
from gswm.weights.encoding import (
    LARGEST,
    LARGEST_OF_3,
    SHAPE,
    SHRUNK,
    SUFFIX,
    coarse_names,
    decode,
    encode,
    names_within,
    packed,
    scaled,
    to_rows,
    unpacked,
)
from gswm.weights.files import CODED, FORMAT, encoding_in, load, read_header, save
from gswm.weights.finding import shipped

SHAPES = [(1, 1), (3, 1), (1, 7), (5, 4), (2, 3, 3), (4, 2, 3, 5)]
values = st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)


def restored(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The decoded values, and the scale of each."""
    integers, scale = to_rows(tensor)
    assert integers.dtype == torch.int8
    assert integers.shape == tensor.shape
    steps = scale.float().reshape(-1, *[1] * (tensor.dim() - 1)).expand_as(tensor)
    return scaled({"x": integers, f"x{SUFFIX}": scale}, "x"), steps


def naive(row: list[float]) -> list[float]:
    """A row after rounding, value by value."""
    step = max(abs(x) for x in row) / 127
    return [round(x / step) * step for x in row]


def test_rows_are_rounded_as_value_by_value() -> None:
    torch.manual_seed(0)
    tensor = torch.randn(6, 3, 5) * torch.logspace(-1, 2, 6)[:, None, None]
    found, steps = restored(tensor)
    want = torch.tensor([naive(row.flatten().tolist()) for row in tensor]).reshape(tensor.shape)
    assert ((found - want).abs() <= 0.6 * steps).all()  # a scale is rounded to 16 bits
    assert (found - tensor).abs().max() > 0
    exact = torch.arange(-127, 128).float().expand(2, -1) * torch.tensor([[1.0], [0.25]])
    assert torch.equal(restored(exact)[0], exact)


@given(st.data())
def test_what_is_decoded_is_within_half_a_step(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    tensor = torch.from_numpy(data.draw(arrays("float32", shape, elements=values)))
    found, steps = restored(tensor)
    error = (found.double() - tensor.double()).abs()
    assert (error <= steps.double() * (0.5 + 1e-4)).all()
    most = tensor.double().abs().flatten(1).amax(dim=1)
    used = steps.double().flatten(1)[:, 0]
    assert (used[most > 0] <= most[most > 0] / LARGEST * 1.001 + 2e-38).all()


def test_rows_of_zeros_stay_zeros_and_constant_rows_constant() -> None:
    tensor = torch.tensor([[0.0, 0.0, 0.0], [0.3, 0.3, 0.3], [-7.0, -7.0, -7.0]])
    found, _ = restored(tensor)
    assert torch.equal(found[0], tensor[0])
    assert (found[1:] == found[1:, :1]).all()
    torch.testing.assert_close(found, tensor, rtol=1e-3, atol=0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(UserError, match="non-finite"):
        to_rows(torch.tensor([[1.0, value]]))


def test_scales_beyond_half_precision_are_kept_in_32_bits() -> None:
    for size, kind in ((1.0, torch.float16), (1e-6, torch.float32), (1e9, torch.float32)):
        tensor = torch.tensor([[1.0, -0.5], [0.25, 1.0]]) * size
        assert to_rows(tensor)[1].dtype == kind
        torch.testing.assert_close(restored(tensor)[0], tensor, rtol=0.02, atol=0)


def test_only_what_is_named_is_in_8_bits_and_the_rest_in_16() -> None:
    torch.manual_seed(0)
    tensors = {"a": torch.randn(3, 4), "b": torch.randn(3, 4), "n": torch.tensor([1, 2])}
    coded = encode(tensors, "int8", ["a"])
    kinds = {name: tensor.dtype for name, tensor in coded.items()}
    assert kinds["a"] == torch.int8
    assert kinds["b"] == kinds[f"a{SUFFIX}"] == torch.float16
    assert torch.equal(coded["n"], tensors["n"])
    found = decode(coded, "int8")
    assert found.keys() == tensors.keys()
    assert found["a"].dtype == found["b"].dtype == torch.float32
    assert torch.equal(found["b"], tensors["b"].half().float())
    assert encode(tensors, "float32", ["a"]) == tensors


def naive_packed(row: list[int]) -> list[int]:
    """The bytes of integers from -3 to 3, bit by bit; the last byte is filled up with zeros."""
    bits = "".join(f"{x + 3:03b}" for x in row)
    bits += "0" * (-len(bits) % 8)
    return [int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)]


@given(st.data())
def test_integers_of_3_bits_are_packed_without_loss(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    integers = torch.from_numpy(data.draw(arrays("int8", shape, elements=st.integers(-3, 3))))
    rows = packed(integers)
    assert rows.tolist() == [naive_packed(row) for row in integers.flatten(1).tolist()]
    found = unpacked({"x": rows, f"x{SHAPE}": torch.tensor(shape)}, "x")
    assert found.dtype == torch.int8
    assert torch.equal(found, integers)


def naive_in_3_bits(row: list[float]) -> float:
    """The smallest squared error of a row among the scales that are tried."""
    errors = []
    for fraction in SHRUNK:
        step = max(abs(x) for x in row) / 3 * fraction
        rounded = [max(-3, min(3, round(x / step))) * step for x in row]
        errors.append(sum((a - b) ** 2 for a, b in zip(row, rounded, strict=True)))
    return min(errors)


def test_rows_in_3_bits_have_the_scale_with_the_smallest_squared_error() -> None:
    torch.manual_seed(0)
    tensor = torch.randn(8, 3, 11) * torch.logspace(-1, 1, 8)[:, None, None]
    integers, scale = to_rows(tensor, LARGEST_OF_3, SHRUNK)
    assert integers.abs().max() == LARGEST_OF_3
    error = (scaled({"x": integers, f"x{SUFFIX}": scale}, "x") - tensor).square().sum(dim=(1, 2))
    want = [naive_in_3_bits(row) for row in tensor.flatten(1).tolist()]
    torch.testing.assert_close(error, torch.tensor(want), rtol=2e-3, atol=0)
    fits, wide = to_rows(tensor, LARGEST_OF_3)
    assert (scaled({"x": fits, f"x{SUFFIX}": wide}, "x") - tensor).square().sum() > error.sum()


def test_decoded_tensors_are_encoded_again_without_loss() -> None:
    torch.manual_seed(0)
    tensors = {name: torch.randn(4, 6, 3) for name in "abc"}
    once = encode(tensors, "int3", ["a", "b"], ["b"])
    assert {name: once[name].dtype for name in "abc"} == {
        **{"a": torch.int8, "b": torch.uint8, "c": torch.float16}
    }
    again = encode(decode(once, "int3"), "int3", ["a", "b"], ["b"])
    assert once.keys() == again.keys()
    assert all(torch.equal(once[name], again[name]) for name in once)


@pytest.mark.parametrize(
    "name",
    [
        *("interaction", "maze", "clips"),
        *("scalor-interaction", "silot-two-layer", "stove-interaction"),
    ],
)
def test_every_model_names_networks_that_it_has(name: str) -> None:
    """Biases, norms and buffers are not stored in 8 bits."""
    model = build(name)
    coarse, there = coarse_names(model), dict(model.named_parameters())
    assert coarse
    assert all(there[each].dim() > 1 for each in coarse)
    inside = {id(module) for module in model.modules()}
    assert all(id(module) in inside for module in model.coarse())
    dynamics = [each for each in there if each.startswith(("propagation.", "dynamics."))]
    assert dynamics
    assert not set(dynamics) & set(coarse)


def test_a_model_stores_nothing_in_8_or_3_bits_unless_it_says_so() -> None:
    model = build("single-ball")
    assert WorldModel.coarse(model) == WorldModel.coarsest(model) == []
    assert model.coarsest() == []  # without a learned background, there is no Conv_ctx


def test_every_shipped_model_has_at_most_10_mb_and_models_of_balls_less() -> None:
    sizes = {name: path.stat().st_size / 1e6 for name, path in shipped().items()}
    assert {"clips", "maze", "two-layer"} <= sizes.keys()
    balls = ("interaction", "occlusion", "single-ball", "two-layer", "two-layer-dense")
    assert {name: size for name, size in sizes.items() if size > 10} == {}
    assert {name: sizes[name] for name in balls if sizes.get(name, 0) > 6.5} == {}


@pytest.fixture
def small() -> WorldModel:
    """A small model with a learned background."""
    maze = recipe("maze")
    torch.manual_seed(0)
    return build(replace(maze, model=replace(maze.model, sizes=SIZES, num_objects=2)))


def test_a_compact_file_is_loaded_as_any_other(small: WorldModel, tmp_path: Path) -> None:
    sizes = {}
    for kind in ("half", "compact"):
        save(tmp_path / kind, small, about={"step": 3}, **{kind: True})
        sizes[kind] = (tmp_path / kind).stat().st_size
        assert read_header(tmp_path / kind)["about"] == {"step": 3}
    assert sizes["compact"] < 0.7 * sizes["half"]
    with safe_open(tmp_path / "compact", framework="pt") as file:
        header = file.metadata()
    assert (header["format"], header["encoding"]) == (CODED, "int8")
    coarse, found = coarse_names(small), load(tmp_path / "compact").state_dict()
    for name, tensor in small.state_dict().items():
        assert found[name].dtype == torch.float32
        want = restored(tensor)[0] if name in coarse else tensor.half().float()
        assert torch.equal(found[name], want)


def test_a_compact_file_that_is_too_large_has_tensors_in_3_bits(
    small: WorldModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "8", small, compact=True)
    monkeypatch.setattr(encoding, "ENOUGH", (tmp_path / "8").stat().st_size // 2)
    save(tmp_path / "3", small, compact=True)
    assert [encoding_in(tmp_path / name) for name in "83"] == ["int8", "int3"]
    assert (tmp_path / "3").stat().st_size < (tmp_path / "8").stat().st_size
    coarsest = names_within(small, small.coarsest())
    assert coarsest
    assert set(coarsest) < set(coarse_names(small))
    finer, found = load(tmp_path / "8").state_dict(), load(tmp_path / "3").state_dict()
    for name, tensor in small.state_dict().items():
        if name in coarsest:
            integers, scale = to_rows(tensor, LARGEST_OF_3, SHRUNK)
            want = scaled({"x": integers, f"x{SUFFIX}": scale}, "x")
        else:
            want = finer[name]
        assert torch.equal(found[name], want)


def test_a_changed_integer_is_noticed(small: WorldModel, tmp_path: Path) -> None:
    save(tmp_path / "w", small, compact=True)
    data = bytearray((tmp_path / "w").read_bytes())
    data[-100] ^= 1
    (tmp_path / "w").write_bytes(data)
    with pytest.raises(UserError, match="is damaged"):
        load(tmp_path / "w")


def test_files_from_before_there_were_encodings_are_read(small: WorldModel, tmp_path: Path) -> None:
    save(tmp_path / "w", small, half=True)
    with safe_open(tmp_path / "w", framework="pt") as file:
        header = file.metadata()
    assert header["format"] == FORMAT
    old = {name: text for name, text in header.items() if name not in ("encoding", "sha256")}
    save_file(load_file(tmp_path / "w"), tmp_path / "old", old)
    for name, tensor in load(tmp_path / "old").state_dict().items():
        assert torch.equal(tensor, small.state_dict()[name].half().float())


@pytest.mark.parametrize("wrong", ["encoding", "lacks", "shape", "kind"])
def test_an_encoding_that_does_not_fit_is_one_line(
    wrong: str, small: WorldModel, tmp_path: Path
) -> None:
    save(tmp_path / "w", small, compact=True)
    with safe_open(tmp_path / "w", framework="pt") as file:
        header = {key: text for key, text in file.metadata().items() if key != "sha256"}
    tensors = load_file(tmp_path / "w")
    name = coarse_names(small)[0]
    if wrong == "encoding":
        header["encoding"] = "int2"
    elif wrong == "lacks":
        del tensors[name]
    elif wrong == "shape":
        tensors[f"{name}{SUFFIX}"] = tensors[f"{name}{SUFFIX}"][1:].clone()
    else:
        tensors[name] = tensors[name].half()
    save_file(tensors, tmp_path / "bad", header)
    with pytest.raises(UserError, match=r"bad cannot be read: ") as error:
        load(tmp_path / "bad")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        *((torch.tensor(x), torch.uint8) for x in (5, [5], [4, 9], [5, 12], [5, -9], [5, 0])),
        *((torch.tensor(x), torch.uint8) for x in ([[5, 9]], [5.0, 9.0], [5, 1 << 60, 1 << 60])),
        (torch.tensor([5, 9]), torch.int8),
    ],
)
def test_a_shape_that_does_not_fit_packed_integers_is_one_line(
    shape: torch.Tensor, kind: torch.dtype
) -> None:
    tensors = encode({"x": torch.randn(5, 9)}, "int3", ["x"], ["x"])
    assert decode(tensors, "int3")["x"].shape == (5, 9)
    tensors |= {f"x{SHAPE}": shape, "x": tensors["x"].view(kind)}
    with pytest.raises(UserError, match="the shape of x does not match its integers"):
        decode(tensors, "int3")
    del tensors["x"]
    with pytest.raises(UserError, match="the shape of x does not match its integers"):
        decode(tensors, "int3")


def test_weights_that_are_not_finite_are_not_saved(small: WorldModel, tmp_path: Path) -> None:
    with torch.no_grad():
        small.get_parameter("discovery.conv_disc.0.weight")[0, 0, 0, 0] = math.nan
    with pytest.raises(UserError, match="non-finite"):
        save(tmp_path / "w", small, compact=True)
    assert not list(tmp_path.iterdir())
