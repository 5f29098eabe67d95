"""Overwrite bytes of videos, and count the damaged copies that are imported with wrong frames.

    python tools/damage.py                 # the table in docs/reliability.md: 40 copies per codec
    python tools/damage.py --copies 200 --only "H.265" VP8

Each copy has 64 bytes overwritten: in a row if its seed is odd, anywhere if it is even. A copy is
refused, or accepted with the pictures of the whole video, or accepted with others or fewer: only
the last kind is wrong. Another version of FFmpeg may change a row.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from synthetic_videos import make
from test_damage import BYTES, damaged, seen
from test_videos import encode

from gswm.data.importing.damage import UnusableError

CODECS = {
    "H.264 in MP4": ("a.mp4", "libx264", "yuv420p"),
    "H.264 in Matroska": ("a.mkv", "libx264", "yuv420p"),
    "H.264 in a transport stream": ("a.ts", "libx264", "yuv420p"),
    "H.265": ("a.mp4", "libx265", "yuv420p"),
    "VP8": ("a.webm", "libvpx", "yuv420p"),
    "VP9": ("a.webm", "libvpx-vp9", "yuv420p"),
    "AV1": ("a.mp4", "libsvtav1", "yuv420p"),
    "MPEG-2": ("a.mpg", "mpeg2video", "yuv420p"),
    "MPEG-4": ("a.avi", "mpeg4", "yuv420p"),
    "WMV2": ("a.wmv", "wmv2", "yuv420p"),
    "GIF": ("a.gif", "gif", "rgb8"),
    "Motion JPEG": ("a.mov", "mjpeg", "yuvj420p"),
    "ProRes": ("a.mov", "prores_ks", "yuv422p10le"),
    "FFV1": ("a.mkv", "ffv1", "yuv420p"),
    "PNG": ("a.mov", "png", "rgb24"),
    "HuffYUV": ("a.avi", "huffyuv", "yuv422p"),
    "uncompressed": ("a.avi", "rawvideo", "yuv420p"),
}
"""A file's name, its encoder and its pixel format."""


def quiet(stream: Any) -> None:
    """Keep x265 from printing its settings."""
    if stream.codec_context.name == "libx265":
        stream.options = {"x265-params": "log-level=error"}


def outcomes(codec: str, copies: int, folder: Path) -> Iterator[str]:
    """The fate of each damaged copy of a video: refused, same or wrong."""
    name, encoder, pixels = CODECS[codec]
    (folder / "whole").mkdir(parents=True)
    pictures = list(make("discs").video)
    whole = encode(folder / "whole" / name, pictures, encoder, pixels, setup=quiet)
    before = seen(whole)
    for seed in range(copies):
        try:
            same = seen(damaged(whole, folder / name, seed)) == before
            yield "same" if same else "wrong"
        except UnusableError:
            yield "refused"


def main() -> None:
    """Print a row for each codec, those that miss the least first."""
    parser = argparse.ArgumentParser(description="Count damaged videos that pass for whole.")
    parser.add_argument("--copies", type=int, default=40)
    parser.add_argument("--only", nargs="+", choices=CODECS, default=list(CODECS))
    args = parser.parse_args()
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="gswm-damage-") as folder:
        for codec in args.only:
            found[codec] = Counter(outcomes(codec, args.copies, Path(folder, str(len(found)))))
    print(f"{BYTES} bytes overwritten in each of {args.copies} copies\n")
    print("| codec | refused | accepted, same frames | accepted, wrong frames |")
    print("|---|---|---|---|")
    for codec, counts in sorted(found.items(), key=lambda item: item[1]["wrong"]):
        print(f"| {codec} | {counts['refused']} | {counts['same']} | {counts['wrong']} |")


if __name__ == "__main__":
    main()
