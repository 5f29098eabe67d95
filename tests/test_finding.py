"""Models by name: in the installation, then in the cache, then at an address; always verified."""

import hashlib
import logging
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tiny
from training import SmallTrunk
from web import Site, serving

import gswm
from gswm.cli import main
from gswm.commands.track import default_model
from gswm.core.errors import UserError
from gswm.models.gswm import discovery
from gswm.studio.catalog import Catalog
from gswm.weights import finding, hub

NAME = "single-ball"
"""A name for a model that does not ship."""


pytestmark = pytest.mark.usefixtures("small_trunk")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and its checksum."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discovery, "Trunk", SmallTrunk)
        return tiny.ship(tmp_path_factory.mktemp("model"), NAME).parent


@pytest.fixture
def away(model: Path, no_weights: Path, tmp_path: Path) -> bytes:
    """A model that is listed in the installation but missing, and the contents of its file."""
    shutil.copy(model / "checksums.txt", no_weights)
    return Path(shutil.copy(model / f"{NAME}.safetensors", tmp_path / "elsewhere")).read_bytes()


@pytest.fixture
def site(away: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A configured address that has the model."""
    monkeypatch.setenv("no_proxy", "*")
    with serving(Site({f"/all/{NAME}.safetensors": away})) as site:
        monkeypatch.setenv(finding.ADDRESS, f"{site.address}/all/")
        yield site


def in_cache(data: bytes) -> Path:
    """Put a file into the cache."""
    path = finding.cached(NAME)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one-line error of a command, after the lines of a download."""
    assert main(args) == 2
    *before, line = capsys.readouterr().err.splitlines()
    assert all(each.startswith("downloading ") for each in before)
    return line


def test_the_cache_is_where_xdg_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / ".cache" / "gswm"
    for said, found in ((str(tmp_path / "x"), tmp_path / "x" / "gswm"), ("", home), ("x", home)):
        monkeypatch.setenv("XDG_CACHE_HOME", said)
        assert finding.cache_folder() == found
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert finding.cache_folder() == home


def test_without_an_address_one_line_says_what_to_do(
    away: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finding.place(NAME) == "not available"
    for args in (["eval", NAME, "--episodes", "1"], ["weights", "fetch", NAME]):
        line = refused(args, capsys)
        assert f"run `pip install -e .` or use weights/{NAME}.safetensors" in line
        assert "set GSWM_WEIGHTS_URL" in line
        assert str(finding.cached(NAME).parent) in line


def test_a_misspelled_model_is_told_the_right_one_and_which_are_here(
    away: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(["eval", "singel-ball"], capsys)
    assert line.endswith("did you mean single-ball? It is not installed.")
    line = refused(["eval", "xyz"], capsys)
    assert line.endswith("this installation has none; `gswm weights` lists 1 more")
    in_cache(away)
    assert refused(["eval", "singel-ball"], capsys).endswith("did you mean single-ball?")
    assert refused(["eval", "xyz"], capsys).endswith("this installation has single-ball")


def test_a_misspelled_path_is_told_the_run_beside_it(
    away: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "maze-0"
    run.mkdir(parents=True)
    line = refused(["eval", str(run.with_name("maze"))], capsys)
    assert line.endswith("or a shipped model: check the path")
    (run / "best.safetensors").write_bytes(away)
    assert refused(["eval", str(run.with_name("maze"))], capsys).endswith(f"did you mean {run}?")


def test_a_file_in_the_cache_is_used_if_it_is_the_right_one(away: bytes) -> None:
    path = in_cache(away)
    assert finding.place(NAME) == "cache"
    assert finding.find(NAME) == path
    assert gswm.load(NAME).recipe.name == NAME
    in_cache(away[:-1] + b"!")
    with pytest.raises(UserError, match=r"is not the 'single-ball' of this version"):
        gswm.load(NAME)


def test_only_models_that_need_no_download_are_listed(
    site: Site, no_weights: Path, away: bytes
) -> None:
    assert finding.installed() == {}
    path = in_cache(away)
    assert finding.installed() == {NAME: path}
    shelf = Catalog()
    shelf.add_installed()
    assert list(shelf.models) == [NAME]
    in_cache(away[:-1] + b"!")
    assert finding.installed() == {}
    shutil.copy(path, no_weights)
    assert finding.installed() == {NAME: no_weights / path.name}
    assert not site.asked


def test_what_ships_is_preferred(site: Site, no_weights: Path, away: bytes) -> None:
    in_cache(away)
    ours = no_weights / f"{NAME}.safetensors"
    ours.write_bytes(away)
    assert finding.place(NAME) == "shipped"
    assert finding.find(NAME) == ours
    assert site.asked == []


def test_a_model_is_downloaded_once(
    site: Site, away: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finding.place(NAME) == "downloadable"
    assert main(["weights", "fetch", NAME]) == 0
    assert capsys.readouterr().out == f"{finding.cached(NAME)}\n"
    assert finding.cached(NAME).read_bytes() == away
    assert gswm.load(NAME).recipe.name == NAME
    assert main(["weights", "fetch", NAME]) == 0
    assert site.asked == [(f"/all/{NAME}.safetensors", None)]


def test_a_wrong_file_in_the_cache_is_replaced(site: Site, away: bytes) -> None:
    in_cache(b"of another version")
    assert finding.find(NAME).read_bytes() == away


def test_a_damaged_file_in_the_cache_is_listed_with_its_remedy(
    site: Site, away: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    in_cache(away + b"!")
    line = refused(["weights"], capsys)
    assert "1 of 1 file is damaged or missing: single-ball damaged" in line
    assert line.endswith("run `gswm weights fetch single-ball`")
    assert main(["weights", "fetch", NAME]) == 0
    assert main(["weights"]) == 0


def test_a_forged_model_is_not_used(
    site: Site, away: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    site.files[f"/all/{NAME}.safetensors"] = away[:-1] + b"!"
    assert "its SHA-256 is wrong" in refused(["weights", "fetch", NAME], capsys)
    assert list(finding.cache_folder().iterdir()) == []


def test_only_known_names_are_asked_for(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.files["/all/other.safetensors"] = b"x"
    assert "there is no model 'other'" in refused(["weights", "fetch", "other"], capsys)
    for name in ("other", "../single-ball", f"x/{NAME}"):
        with pytest.raises(UserError, match="shipped model"):
            gswm.load(name)
    assert site.asked == []


@pytest.mark.parametrize(
    "address",
    [
        *("ftp://host/x", "file:///etc", "host/x", "https://", "https://me:secret@host/x"),
        *("https://host/x?key=1", "https://host/x#y", "https://host:port/x", "https://[::1/x"),
    ],
)
def test_an_address_that_is_none_is_refused(
    address: str, away: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(finding.ADDRESS, address)
    with pytest.raises(UserError, match="GSWM_WEIGHTS_URL must be the URL") as error:
        finding.find(NAME)
    assert "secret" not in str(error.value)


def test_a_folder_of_results_does_not_hide_a_model(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).mkdir()
    assert finding.find(NAME) == finding.cached(NAME)


def test_the_default_for_a_world_is_its_model_wherever_it_is(site: Site, no_weights: Path) -> None:
    assert default_model(NAME) == NAME
    tiny.ship(no_weights, finding.ANY_VIDEO)
    assert default_model("two-layer") == default_model("film.mp4") == finding.ANY_VIDEO


def test_what_a_cached_file_says_in_its_header_is_checked_like_any_other(
    away: bytes, no_weights: Path, tmp_path: Path
) -> None:
    """A correct checksum does not make a valid weights file."""
    lines = f"{hashlib.sha256(b'text').hexdigest()}  {NAME}.safetensors\n"
    (no_weights / "checksums.txt").write_text(lines)
    in_cache(b"text")
    with pytest.raises(UserError, match="is not a safetensors file"):
        gswm.load(NAME)


# -- a model hub


def fake_hub(monkeypatch: pytest.MonkeyPatch, download: Any) -> None:
    module = ModuleType("huggingface_hub")
    module.hf_hub_download = download  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)


@pytest.mark.parametrize(
    ("address", "repo", "revision"),
    [
        ("hf://some-one/my.model", "some-one/my.model", None),
        ("hf://a/b@v1.2", "a/b", "v1.2"),
        ("hf://a/b@refs/pr/1", "a/b", "refs/pr/1"),
    ],
)
def test_a_repository_is_asked_for_the_file_that_an_export_writes(
    address: str,
    repo: str,
    revision: str | None,
    away: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def hf_hub_download(
        repo_id: str,
        filename: str,
        *,
        subfolder: Any = None,
        repo_type: Any = None,
        revision: str | None = None,
        library_name: Any = None,
    ) -> str:
        asked.append((repo_id, filename, revision))
        return str(tmp_path / "elsewhere")

    fake_hub(monkeypatch, hf_hub_download)
    assert gswm.load(address).recipe.name == NAME
    assert asked == [(repo, hub.FILE, revision)]


@pytest.mark.parametrize(
    "address", ["hf://", "hf://a", "hf://a/b/c", "hf://../x", "hf://a/b@", "hf://a/b c"]
)
def test_what_is_no_repository_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_hub(monkeypatch, lambda **_: pytest.fail("it was asked for"))
    with pytest.raises(UserError, match="use hf://owner/name"):
        gswm.load(address)


def test_without_the_package_one_line_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    line = refused(["eval", "hf://a/b", "--episodes", "1"], capsys)
    assert "pip install -c constraints.txt -e '.[hub]'" in line
    assert "pip install 'FILE.whl[hub]'" in line


def test_an_error_of_the_hub_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class RepositoryError(Exception):
        pass

    def fail(**_: Any) -> str:
        raise RepositoryError("404 Client Error.\n\nRepository Not Found for url: ...")

    fake_hub(monkeypatch, fail)
    line = refused(["eval", "hf://a/b", "--episodes", "1"], capsys)
    assert "cannot load hf://a/b: 404 Client Error." in line


def test_a_hub_that_cannot_be_reached_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    class LocalEntryNotFoundError(Exception):
        pass

    def fail(**_: Any) -> str:
        logging.getLogger("huggingface_hub.utils").warning("Retrying in 1s [Retry 1/5].")
        raise LocalEntryNotFoundError("An error happened while trying to locate the file")

    fake_hub(monkeypatch, fail)
    line = refused(["eval", "hf://a/b", "--episodes", "1"], capsys)
    assert "cannot load hf://a/b: the hub cannot be reached" in line
    assert "Retrying" not in caplog.text


def test_a_file_of_the_hub_that_is_damaged_is_refused(
    away: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").write_bytes(away[:-1] + bytes([away[-1] ^ 1]))
    fake_hub(monkeypatch, lambda **_: str(tmp_path / "elsewhere"))
    with pytest.raises(UserError, match="is damaged"):
        gswm.load("hf://a/b")
