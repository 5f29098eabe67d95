"""Uploads: a video becomes frames, any other file a one-line error; nothing is left behind."""

import asyncio
import io
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from gswm.core.errors import UserError
from gswm.data.importing.film import Film
from gswm.data.importing.videos import Cut
from gswm.studio import decoding, uploads
from gswm.studio.catalog import Catalog
from gswm.viz import formats


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    path = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def received(data: bytes, cut: Cut = Cut(64)):  # noqa: B008
    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 1000):
            yield data[at : at + 1000]

    return arrived(chunks(), cut)


def arrived(chunks: AsyncIterator[bytes], cut: Cut = Cut(64)):  # noqa: B008
    async def receive():
        return await uploads.receive(chunks, cut, asyncio.Semaphore(1))

    frames, more = asyncio.run(receive())
    assert not more
    return frames


def video(kind: str, tmp_path: Path, frames: int = 5) -> bytes:
    gray = np.linspace(0, 250, frames).astype(np.uint8)[:, None, None, None]
    path = tmp_path / f"own.{kind}"
    formats.save_video(path, np.tile(gray, (1, 48, 80, 3)))
    return path.read_bytes()


@pytest.mark.parametrize("kind", ["gif", "mp4"])
def test_a_video_becomes_frames(kind: str, tmp_path: Path, folder: Path) -> None:
    frames = received(video(kind, tmp_path))
    assert frames.shape == (1, 5, 3, 64, 64)
    gray = frames[0, :, :, 20:44].float().mean((1, 2, 3))
    assert [abs(int(gray[t]) - 62 * t) < 6 for t in range(5)] == [True] * 5
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    "cut", [Cut(64, 5.0), Cut(32, 20.0, fit="stretch"), Cut(16, region=(8, 4, 40, 32))]
)
def test_a_video_is_taken_at_the_rate_that_is_wanted(cut: Cut, tmp_path: Path) -> None:
    data = video("mp4", tmp_path)  # 10 frames per second
    frames = received(data, cut)
    assert frames.shape[1] == {5: 3, 20: 10, 0: 5}[cut.fps or 0]
    assert torch.equal(frames, Film(tmp_path / "own.mp4", cut).read())


def test_a_long_video_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = video("gif", tmp_path, 6)
    (tmp_path / "video.gif").write_bytes(data)
    monkeypatch.setattr(decoding, "MOST_FRAMES", 4)
    frames, more = decoding.decoded("gif", Cut(64), tmp_path / "video.gif")
    assert (len(frames), more) == (4, True)
    monkeypatch.setattr(decoding, "MOST_FRAMES", 6)
    frames, more = decoding.decoded("gif", Cut(64), tmp_path / "video.gif")
    assert (len(frames), more) == (6, False)


def test_the_page_is_told_that_a_long_video_is_cut(tmp_path: Path) -> None:
    data = video("mp4", tmp_path, decoding.MOST_FRAMES + 5)

    async def chunks() -> AsyncIterator[bytes]:
        yield data

    async def receive():
        return await uploads.receive(chunks(), Cut(16), asyncio.Semaphore(1))

    frames, more = asyncio.run(receive())
    assert frames.shape[1] == decoding.MOST_FRAMES
    assert more


@pytest.mark.parametrize("size", [32, 64, 128])
def test_an_upload_is_shown_to_models_of_other_sizes(size: int) -> None:
    shelf = Catalog()
    upload = torch.full((1, 3, 3, 64, 64), 90, dtype=torch.uint8)
    upload[..., 32:] = 200
    found = shelf.episode(shelf.add_upload(upload), 0, size).video
    assert found.shape == (1, 3, 3, size, size)
    assert found[..., : size // 2 - 2].eq(90).all()
    assert found[..., size // 2 + 2 :].eq(200).all()


def test_a_picture_that_is_too_large_is_refused(tmp_path: Path) -> None:
    file = io.BytesIO()
    Image.new("P", (9000, 9000)).save(file, "GIF")
    with pytest.raises(UserError, match="more than 9,437,184 pixels"):
        received(file.getvalue())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "video format is not supported"),
        (b"#EXTM3U\n/etc/passwd\n", "video format is not supported"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "video format is not supported"),
        (b"GIF89a" + bytes(50), "cannot open this video"),
        (bytes(4) + b"ftypisom" + bytes(100), "cannot open this video"),
    ],
)
def test_what_is_no_video_is_one_line(data: bytes, said: str, folder: Path) -> None:
    with pytest.raises(UserError, match=said) as caught:
        received(data)
    assert len(str(caught.value).splitlines()) == 1
    assert not list(folder.iterdir())


def test_a_damaged_video_is_one_line(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UserError, match="cannot open this video"):
        received(video("mp4", tmp_path)[:900])
    assert not list(folder.iterdir())


def test_too_many_bytes_are_refused_before_they_are_there(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(uploads, "MOST_BYTES", 5000)
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1000
            yield bytes(1000)

    with pytest.raises(UserError, match="at most"):
        arrived(endless())
    assert taken == 6000
    assert not list(folder.iterdir())


@pytest.mark.parametrize(("limit", "pause"), [("IDLE_SECONDS", 60), ("BODY_SECONDS", 0.01)])
def test_a_video_that_stops_on_its_way_is_refused(
    limit: str, pause: float, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(uploads, limit, 0.05)

    async def slow() -> AsyncIterator[bytes]:
        while True:
            yield b"GIF89a"
            await asyncio.sleep(pause)

    with pytest.raises(UserError, match="has stalled"):
        arrived(slow())
    assert not list(folder.iterdir())


def test_no_upload_of_many_outlasts_its_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(uploads, "BODY_SECONDS", 0.05)

    async def trickle() -> AsyncIterator[bytes]:
        while True:
            yield b"GIF89a"
            await asyncio.sleep(0.01)

    async def refused(path: Path) -> bool:
        with pytest.raises(UserError, match="has stalled"):
            await uploads.store(trickle(), path)
        return True

    async def many() -> list[bool]:
        async with asyncio.timeout(60):
            return await asyncio.gather(*(refused(tmp_path / str(i)) for i in range(400)))

    assert all(asyncio.run(many()))


def test_only_a_video_that_is_all_there_takes_a_decoder(tmp_path: Path, folder: Path) -> None:
    whole = video("gif", tmp_path)

    async def stalled() -> AsyncIterator[bytes]:
        yield whole[:100]
        await asyncio.Event().wait()

    async def at_once() -> AsyncIterator[bytes]:
        yield whole

    async def both():
        decoders = asyncio.Semaphore(1)
        first = asyncio.create_task(uploads.receive(stalled(), Cut(64), decoders))
        await asyncio.sleep(0)
        second = await asyncio.wait_for(uploads.receive(at_once(), Cut(64), decoders), 60)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return second

    assert asyncio.run(both())[0].shape == (1, 5, 3, 64, 64)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("announced", ["-1", "x", "1e3", "9" * 30, "9" * 5000, "67108865"])
def test_a_length_that_cannot_be_is_one_line(announced: str) -> None:
    with pytest.raises(UserError, match="at most 64 MiB"):
        uploads.check_length(announced)


def test_a_decoder_that_takes_too_long_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(uploads, "SECONDS", 0.01)
    with pytest.raises(UserError, match="too long to decode"):
        received(video("gif", tmp_path))
    assert not list(folder.iterdir())


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_mutilated_video_is_frames_or_one_line(data: st.DataObject, folder: Path) -> None:
    kind = data.draw(st.sampled_from(["gif", "mp4"]))
    with tempfile.TemporaryDirectory() as place:
        whole = bytearray(video(kind, Path(place)))
    for _ in range(data.draw(st.integers(1, 30))):
        whole[data.draw(st.integers(13, len(whole) - 1))] = data.draw(st.integers(0, 255))
    said = ""
    try:
        assert received(bytes(whole)).shape[2:] == (3, 64, 64)
    except UserError as error:
        said = str(error)
    assert len(said.splitlines()) <= 1
    assert not list(folder.iterdir())


@given(st.binary(max_size=32))
def test_only_what_begins_as_a_video_is_decoded(head: bytes) -> None:
    known = any(head[at : at + len(magic)] == magic for at, magic, _ in uploads.FORMATS)
    try:
        uploads.format_of(head)
    except UserError:
        assert not known
    else:
        assert known


def test_a_decoder_starts_without_torch() -> None:
    code = "import sys, gswm.studio.decoding; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
