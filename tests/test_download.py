"""Downloads from a real server: complete and verified under the final name, or absent."""

import hashlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from web import Site, serving

from gswm.core.errors import UserError
from gswm.weights.download import Limits, download

BODY = bytes(range(256)) * 40
SHA = hashlib.sha256(BODY).hexdigest()
QUICK = Limits(seconds=20.0, silence=5.0, size=100_000, attempts=3, pause=0.01)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site({"/f": BODY})) as site:
        yield site


def get(site: Site, path: Path, limits: Limits = QUICK, sha256: str = SHA) -> None:
    download(f"{site.address}/f", path, sha256, limits)


def hidden(folder: Path) -> list[Path]:
    return sorted(folder.glob(".*"))


def test_a_file_is_downloaded_whole(site: Site, tmp_path: Path) -> None:
    get(site, tmp_path / "deep" / "file")
    assert (tmp_path / "deep" / "file").read_bytes() == BODY
    assert os.listdir(tmp_path / "deep") == ["file"]
    assert site.asked == [("/f", None)]


def test_a_broken_connection_is_resumed(site: Site, tmp_path: Path) -> None:
    site.breaks = [1000, 2000]
    get(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    assert site.asked == [("/f", None), ("/f", "bytes=1000-"), ("/f", "bytes=3000-")]


def test_a_download_that_failed_goes_on_the_next_time(site: Site, tmp_path: Path) -> None:
    site.breaks = [1000, 10, 10]
    with pytest.raises(UserError, match=r"was lost .*1\.02 kB are kept") as error:
        get(site, tmp_path / "file")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "file").exists()
    (part,) = hidden(tmp_path)
    assert part.read_bytes() == BODY[:1020]
    get(site, tmp_path / "file")
    assert site.asked[-1] == ("/f", "bytes=1020-")
    assert (tmp_path / "file").read_bytes() == BODY
    assert hidden(tmp_path) == []


def test_a_server_without_ranges_sends_all_of_it_again(site: Site, tmp_path: Path) -> None:
    site.breaks, site.ranges = [1000], False
    get(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    assert site.asked[-1] == ("/f", "bytes=1000-")


def part_of(path: Path, data: bytes) -> None:
    """Leave the partial file of a broken download."""
    path.with_name(f".{path.name}.{SHA[:16]}.gswm-download").write_bytes(data)


@pytest.mark.parametrize("left", [b"x" * 1000, b"x" * len(BODY), b"x" * 2 * len(BODY)])
def test_a_file_that_has_changed_is_downloaded_anew(
    left: bytes, site: Site, tmp_path: Path
) -> None:
    """The partial file differs from the server's content, or is longer."""
    part_of(tmp_path / "file", left)
    get(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    assert site.asked[-1] == ("/f", None)
    assert hidden(tmp_path) == []


def test_a_file_that_changes_between_two_attempts_is_downloaded_anew(
    site: Site, tmp_path: Path
) -> None:
    class Changing(dict[str, bytes]):
        def get(self, key: str, default: object = None) -> bytes:
            return BODY if len(site.asked) > 1 else b"old" * len(BODY)

    site.files, site.breaks = Changing(), [1000]
    get(site, tmp_path / "file")
    assert [asked for _, asked in site.asked] == [None, "bytes=1000-", None]
    assert (tmp_path / "file").read_bytes() == BODY


def test_content_with_another_checksum_gets_no_name(site: Site, tmp_path: Path) -> None:
    site.files["/f"] = BODY[:-1] + b"!"
    with pytest.raises(UserError, match="its SHA-256 is wrong"):
        get(site, tmp_path / "file")
    assert os.listdir(tmp_path) == []
    assert len(site.asked) == 1


def test_the_file_before_is_kept_until_the_new_one_is_whole(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"before")
    site.answers = [404]
    with pytest.raises(UserError, match="404"):
        get(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"before"
    get(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_file_that_is_not_there_is_one_line(site: Site, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot download http://.*/none: 404") as error:
        download(f"{site.address}/none", tmp_path / "file", SHA, QUICK)
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == []
    assert len(site.asked) == 1


def test_a_server_that_is_busy_is_asked_again(site: Site, tmp_path: Path) -> None:
    site.answers = [503, 500]
    get(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    site.answers = [503] * QUICK.attempts
    with pytest.raises(UserError, match="the server answers 503"):
        get(site, tmp_path / "other")


def test_nobody_answers(tmp_path: Path) -> None:
    with serving(Site()) as site:
        address = site.address
    with pytest.raises(UserError, match="the connection failed"):
        download(f"{address}/f", tmp_path / "file", SHA, QUICK)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("lengths", [True, False])
@pytest.mark.parametrize("slow_header", [True, False])
def test_a_trickle_ends_when_the_time_is_over(
    lengths: bool, slow_header: bool, site: Site, tmp_path: Path
) -> None:
    """Although no pause is long."""
    site.delay, site.lengths, site.slow_header = 0.02, lengths, slow_header
    with pytest.raises(UserError, match="took more than"):
        get(site, tmp_path / "file", Limits(seconds=0.5, silence=5.0, size=10**6, pause=0.01))
    assert not (tmp_path / "file").exists()
    kept = [path.read_bytes() for path in hidden(tmp_path)]
    assert kept == ([] if slow_header else [BODY[: len(kept[0])]])


def test_silence_ends_an_attempt(site: Site, tmp_path: Path) -> None:
    site.delay = 60
    limits = Limits(seconds=60.0, silence=0.2, size=10**6, attempts=2, pause=0.01)
    with pytest.raises(UserError, match="timed out"):
        get(site, tmp_path / "file", limits)
    assert site.asked == [("/f", None), ("/f", "bytes=1-")]


@pytest.mark.parametrize("lengths", [True, False])
def test_more_than_is_allowed_is_not_kept(lengths: bool, site: Site, tmp_path: Path) -> None:
    site.lengths = lengths
    with pytest.raises(UserError, match=r"it is larger than 5 kB"):
        get(site, tmp_path / "file", Limits(size=5000))
    assert os.listdir(tmp_path) == []


def test_a_redirection_leads_to_the_web_alone(site: Site, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(BODY)
    for to in (f"file://{secret}", "ftp://127.0.0.1/f"):
        site.redirect = to
        with pytest.raises(UserError, match="cannot download"):
            get(site, tmp_path / "file")
        assert not (tmp_path / "file").exists()
    with serving(Site({"/f": BODY})) as other:
        site.redirect = f"{other.address}/f"
        get(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY


SCRIPT = """
import sys
from pathlib import Path
from gswm.weights.download import Limits, download
download(sys.argv[1], Path(sys.argv[2]), sys.argv[3], Limits(seconds=60.0, silence=20.0))
"""


def process(site: Site, path: Path, largest: int | None = None) -> subprocess.Popen[bytes]:
    """Download in a process, which cannot write files that are larger than `largest`."""

    def limited() -> None:
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    command = [sys.executable, "-c", SCRIPT, f"{site.address}/f", str(path), SHA]
    return subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=limited)


def test_a_full_disk_is_told(site: Site, tmp_path: Path) -> None:
    _, said = process(site, tmp_path / "file", largest=5000).communicate(timeout=60)
    assert b"DiskFullError: not enough space to write" in said
    assert not (tmp_path / "file").exists()
    assert len(site.asked) == 1


def test_two_processes_download_a_file_once(site: Site, tmp_path: Path) -> None:
    site.delay = 0.0001
    both = [process(site, tmp_path / "file") for _ in range(2)]
    for each in both:
        assert each.wait(timeout=60) == 0
        each.stderr.close()  # pyright: ignore[reportOptionalMemberAccess]
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == BODY
    assert len(site.asked) == 1


def test_a_killed_process_leaves_no_file_and_the_next_one_goes_on(
    site: Site, tmp_path: Path
) -> None:
    site.delay = 0.01
    first = process(site, tmp_path / "file")
    while not any(path.stat().st_size for path in hidden(tmp_path)):
        assert first.poll() is None
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert not (tmp_path / "file").exists()
    site.delay = 0
    get(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    assert site.asked[-1][1] is not None
    assert hidden(tmp_path) == []
