"""Uploaded videos: limited in size, identified by their signature, and decoded in a subprocess."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.data.importing.videos import Cut
from gswm.data.placement import as_text
from gswm.studio.decoding import MORE, MOST_FRAMES

MOST_BYTES = 64 << 20
BODY_SECONDS, IDLE_SECONDS = 300, 20
"""Time limits of an upload in seconds: in total, and without data."""
SECONDS = 60
"""Time limit of a decoder, after which it is killed."""
FORMATS = (
    (0, b"GIF8", "gif"),
    (4, b"ftyp", "mov"),
    (0, b"\x1a\x45\xdf\xa3", "matroska"),
    (8, b"AVI ", "avi"),
)
"""Offset, signature and decoder of each format; playlists are not supported."""


def format_of(head: bytes) -> str:
    """Choose the decoder for a file that starts with `head`."""
    for at, magic, name in FORMATS:
        if head[at : at + len(magic)] == magic:
            return name
    raise UserError("this video format is not supported: use mp4, webm, avi or gif")


def check_length(announced: str) -> None:
    """Refuse a video by its Content-Length."""
    if not announced.isdecimal() or len(announced) > 20 or int(announced) > MOST_BYTES:
        raise UserError(f"a video may have at most {MOST_BYTES >> 20} MiB: shorten it")


async def receive(
    chunks: AsyncIterable[bytes], cut: Cut, decoders: asyncio.Semaphore
) -> tuple[UInt8[Tensor, "1 time 3 size size"], bool]:
    """Receive a video in parts, and decode it to size × size frames at the requested frame rate.

    The second value tells whether frames were left out. A decoder is acquired only when the upload
    is complete, so a stalled upload occupies none.
    """
    with tempfile.TemporaryDirectory(prefix="gswm-studio-") as folder:
        source = Path(folder) / "video"
        await store(chunks, source)
        with source.open("rb") as file:
            kind = format_of(file.read(16))
        source = source.rename(source.with_suffix(f".{kind}"))
        async with decoders:
            frames = await decode(kind, cut, source, Path(folder) / "frames")
        more = (Path(folder) / "frames").with_suffix(MORE).exists()
    size = cut.size
    video = torch.frombuffer(frames, dtype=torch.uint8).view(1, -1, size, size, 3).movedim(-1, 2)
    return video, more


async def store(chunks: AsyncIterable[bytes], path: Path) -> None:
    """Write an upload to a file; refuse it if it takes too long or is too large."""
    total, parts = 0, aiter(chunks)
    with path.open("wb") as file:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while chunk := await part_of(parts):
                    total += len(chunk)
                    if total > MOST_BYTES:
                        raise UserError(
                            f"a video may have at most {MOST_BYTES >> 20} MiB: shorten it"
                        )
                    file.write(chunk)
        except TimeoutError as error:
            raise UserError("this upload has stalled: send it again") from error


async def part_of(parts: AsyncIterator[bytes]) -> bytes:
    """The next non-empty part, within the time limit; an empty one at the end.

    Python 3.11's `wait_for` may swallow the cancellation of the total time limit.
    """
    async with asyncio.timeout(IDLE_SECONDS):
        async for part in parts:
            if part:
                return part
    return b""


async def decode(kind: str, cut: Cut, source: Path, out: Path) -> bytearray:
    """Decode a video in a subprocess with a time limit."""
    how = [kind, str(cut.size), str(cut.fps or 0), cut.fit, as_text(cut.region)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gswm.studio.decoding", *how, source, out),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        async with asyncio.timeout(SECONDS):
            _, said = await process.communicate()
    except TimeoutError as error:
        raise UserError("this video takes too long to decode: shorten it") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    frame = cut.size * cut.size * 3
    data = bytearray(out.read_bytes()) if process.returncode == 0 and out.is_file() else bytearray()
    if not data or len(data) % frame or len(data) > MOST_FRAMES * frame:
        lines = (
            said.decode("utf-8", "replace").strip().splitlines() if process.returncode == 1 else []
        )
        why = lines[-1][:200] if lines else "it needs too much memory"
        raise UserError(f"cannot open this video: {why}")
    return data
