"""Checkpoints are written completely or not at all, and damaged ones are recognized."""

import ast
import errno
import hashlib
import os
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_layering import FILES
from tiny import generator
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.files import DiskFullError
from gswm.train import checkpoint as checkpoints
from gswm.train.checkpoint import Checkpoint, load, load_newest, num_bytes, numbered, save, split


def tensors(seed: int = 0) -> dict[str, Tensor]:
    g = generator(seed)
    return {
        "model.weight": torch.randn(7, 5, generator=g),
        "model.transposed": torch.randn(3, 4, generator=g).T,
        "adam.step.weight": torch.tensor(float(seed)),
        "half": torch.randn(11, generator=g).half(),
        "whole": torch.randint(0, 9, (2, 3), generator=g),
        "none": torch.zeros(0, 3),
    }


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(
        step, tensors(step), {"best": {"error": 0.1 + 0.2}, "text": "σ", "step": step}
    )


def same(a: Checkpoint, b: Checkpoint) -> bool:
    if (a.step, a.state, a.tensors.keys()) != (b.step, b.state, b.tensors.keys()):
        return False
    pairs = [(a.tensors[name], b.tensors[name]) for name in a.tensors]
    return all(x.dtype == y.dtype and torch.equal(x, y) for x, y in pairs)


def test_what_is_saved_is_loaded_bit_for_bit(tmp_path: Path) -> None:
    path = save(tmp_path, checkpoint(12))
    assert path.name == "00000012"
    assert same(load(path), checkpoint(12))


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3, 10):
        save(tmp_path, checkpoint(step))
    assert [path.name for path in numbered(tmp_path)] == ["00000003", "00000010"]
    assert all(same(load(p), checkpoint(int(p.name))) for p in numbered(tmp_path))


def test_the_checksums_are_in_the_format_of_sha256sum(tmp_path: Path) -> None:
    path = save(tmp_path, checkpoint(1))
    files = ("state.json", "tensors-01.safetensors")
    expected = [f"{hashlib.sha256((path / f).read_bytes()).hexdigest()}  {f}\n" for f in files]
    lines = (path / "SHA256SUMS").read_text().splitlines(keepends=True)
    assert sorted(lines) == sorted(expected)


@given(data=st.data())
def test_a_bit_flipped_anywhere_is_seen(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    path = save(folder, checkpoint(3))
    file = data.draw(st.sampled_from(sorted(path.iterdir())))
    content = bytearray(file.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    with pytest.raises(UserError, match="00000003 is damaged: "):
        load(path)


@given(data=st.data())
def test_a_file_cut_off_anywhere_is_seen(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = save(tmp_path_factory.mktemp("cut"), checkpoint(3), part_bytes=2_000)
    file = data.draw(st.sampled_from(sorted(path.iterdir())))
    content = file.read_bytes()
    # The end of the last line of the checksums says nothing: without it all is still there.
    end = len(content) - (2 if file.name == "SHA256SUMS" else 1)
    file.write_bytes(content[: data.draw(st.integers(0, end))])
    with pytest.raises(UserError, match="00000003 is damaged: "):
        load(path)


@pytest.mark.parametrize("name", ["SHA256SUMS", "state.json", "tensors-01.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, checkpoint(3))
    (path / name).unlink()
    with pytest.raises(UserError, match=f"00000003 is damaged: {name} is missing$"):
        load(path)


def test_of_a_changed_file_its_name_is_said_and_the_one_before_is_used(tmp_path: Path) -> None:
    save(tmp_path, checkpoint(1))
    path = save(tmp_path, checkpoint(2))
    (path / "tensors-01.safetensors").write_bytes(b"")
    said: list[str] = []
    found = load_newest(tmp_path, said.append)
    assert found is not None
    assert same(found, checkpoint(1))
    assert said == [
        f"the checkpoint {path} is damaged: tensors-01.safetensors has changed; "
        "using the previous one"
    ]


def test_if_all_are_damaged_nothing_is_begun_anew_without_being_asked_for(tmp_path: Path) -> None:
    for step in (1, 2):
        (save(tmp_path, checkpoint(step)) / "state.json").unlink()
    said: list[str] = []
    with pytest.raises(
        UserError, match=r"00000001 is damaged: .*; there is no other checkpoint: start a new run"
    ):
        load_newest(tmp_path, said.append)
    assert len(said) == 1
    assert said[0].endswith("00000002 is damaged: state.json is missing; using the previous one")
    assert len(numbered(tmp_path)) == 2


def test_no_checkpoints_are_none(tmp_path: Path) -> None:
    said: list[str] = []
    assert load_newest(tmp_path / "nothing", said.append) is None
    assert not said


def test_damaged_ones_of_later_steps_do_not_push_out_the_new_one(tmp_path: Path) -> None:
    """The checkpoint that was resumed is kept until a newer one is complete."""
    save(tmp_path, checkpoint(10))
    for step in (20, 30):
        shutil.copytree(tmp_path / "00000010", tmp_path / f"{step:08d}")
        (tmp_path / f"{step:08d}" / "state.json").unlink()
    save(tmp_path, checkpoint(15))
    assert [path.name for path in numbered(tmp_path)] == ["00000010", "00000015"]


def test_a_damaged_one_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    save(tmp_path, checkpoint(1))
    (save(tmp_path, checkpoint(2)) / "state.json").unlink()
    assert same(load(save(tmp_path, checkpoint(2))), checkpoint(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001", "00000002"]


def test_what_a_killed_process_left_half_written_is_cleared(tmp_path: Path) -> None:
    path = save(tmp_path, checkpoint(1))
    shutil.copytree(path, tmp_path / ".00000002.tmp")
    (tmp_path / "mine").mkdir()
    assert [path.name for path in numbered(tmp_path)] == ["00000001"]
    save(tmp_path, checkpoint(3))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["00000001", "00000003", "mine"]


def operations(monkeypatch: pytest.MonkeyPatch, fail_at: int, error: BaseException) -> list[str]:
    """Have the `fail_at`-th flush or renaming from now on raise; what was done before it."""
    done: list[str] = []

    def counted(name: str) -> None:
        real = getattr(os, name)

        def call(*args: object) -> object:
            if len(done) == fail_at:
                raise error
            done.append(name)
            return real(*args)

        monkeypatch.setattr(os, name, call)

    counted("fsync")
    counted("rename")
    return done


@pytest.mark.parametrize("fail_at", range(6))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_one_before_and_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail_at: int, code: int
) -> None:
    save(tmp_path, checkpoint(1))
    with monkeypatch.context() as patch:
        operations(patch, fail_at, OSError(code, os.strerror(code)))
        with pytest.raises(
            DiskFullError, match=r"^not enough space to write .*00000002 \(.*: free some space"
        ):
            save(tmp_path, checkpoint(2))
    newest = load_newest(tmp_path, pytest.fail)
    assert newest is not None
    # The sixth is the flush after the renaming: the new one is there by then, and whole.
    assert same(newest, checkpoint(2 if fail_at == 5 else 1))
    assert DiskFullError.code == 4


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("fail_at", range(7))
def test_whenever_the_process_dies_the_newest_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail_at: int
) -> None:
    """Even if it replaces a damaged checkpoint of the same step, and cannot clean up."""
    save(tmp_path, checkpoint(1))
    (save(tmp_path, checkpoint(2)) / "tensors-01.safetensors").write_bytes(b"")
    with monkeypatch.context() as patch:
        done = operations(patch, fail_at, Killed())
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(Killed):
            save(tmp_path, checkpoint(2))
        assert len(done) == fail_at
    newest = load_newest(tmp_path, lambda _: None)
    assert newest is not None
    assert same(newest, checkpoint(2 if fail_at == 6 else 1))
    save(tmp_path, checkpoint(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001", "00000002"]


def test_another_error_is_one_line_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operations(monkeypatch, 0, OSError(errno.EROFS, os.strerror(errno.EROFS)))
    with pytest.raises(UserError, match=r"^cannot write .*: read-only file system$"):
        save(tmp_path, checkpoint(2))


@given(part=st.integers(1_600, 20_000), sizes=st.lists(st.integers(0, 140), max_size=30))
def test_parts_are_no_larger_than_asked_and_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, part: int, sizes: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    long = "adam.exp_avg_sq.propagation.rnn_prior.interaction.mlp_weight."
    named = {f"{long}{i}.weight": torch.arange(float(n)) for i, n in enumerate(sizes)}
    path = save(folder, Checkpoint(1, named, {}), part)
    files = list(path.glob("tensors-*"))
    assert max(file.stat().st_size for file in files) <= part
    assert same(load(path), Checkpoint(1, named, {}))
    if sum(map(len, map(safetensors.torch.save, split(named, None)))) <= part // 8:
        assert len(files) == 1


def test_a_tensor_larger_than_a_part_is_refused() -> None:
    with pytest.raises(UserError, match=r"big alone takes .* bytes; parts must be larger"):
        split({"big": torch.zeros(1000)}, 4000)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("15M", 15_000_000),
        ("15MB", 15_000_000),
        ("15MiB", 15 * 2**20),
        ("500K", 500_000),
        ("2G", 2 * 10**9),
        ("1234567", 1_234_567),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert num_bytes(text) == size


@pytest.mark.parametrize("text", ["", "M", "0", "-5M", "1.5M", "15X", "15M M"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=f"^'{text}' is not a size; use, for example, 15M"):
        num_bytes(text)


def test_nothing_in_the_package_reads_or_writes_pickles() -> None:
    """By name: pickle and its variants, torch.load, torch.save, and numpy's allow_pickle."""
    banned = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
    for name, file in FILES.items():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                assert not banned & {alias.name.split(".")[0] for alias in node.names}, name
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in banned, name
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in {("torch", "load"), ("torch", "save")}
            if isinstance(node, ast.keyword):
                assert node.arg != "allow_pickle", name


def test_a_checkpoint_holds_safetensors_and_json_and_nothing_else(tmp_path: Path) -> None:
    path = save(tmp_path, checkpoint(1), part_bytes=1_600)
    kinds = {file.suffix for file in path.iterdir() if file.name != checkpoints.SUMS}
    assert kinds == {".safetensors", ".json"}
