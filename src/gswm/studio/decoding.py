"""Decode one video under limits: `python -m gswm.studio.decoding KIND SIZE FPS FIT REGION IN OUT`.

It runs in a separate process, since files may be malicious: its memory and time are limited, and it
can be killed. It writes the first frames as bytes, size × size pixels each, at FPS frames per
second (0 for every frame), or prints an error in one line on stderr.
"""

import sys
from pathlib import Path

import numpy as np

from gswm.data.importing import videos
from gswm.data.importing.frames import in_order, stream_frames
from gswm.studio.limits import limit

MOST_FRAMES = 300
MORE = ".more"
"""Suffix of an empty file beside the frames, if the video has more frames."""
MOST_PIXELS = 4096 * 2304
"""Maximum number of pixels per frame."""
MEMORY = 1 << 30
"""Bytes of memory beyond the initial ones."""
SECONDS = 45
"""Seconds of processor time."""


def main(args: list[str]) -> int:
    """Read IN, write OUT."""
    kind, size, fps, fit, region, source, out = args
    known = {"fit": fit, "region": region}
    cut = videos.Cut.like(known, int(size), float(fps))
    limit(MEMORY, SECONDS, MOST_FRAMES * cut.size**2 * 3)
    try:
        frames, more = decoded(kind, cut, Path(source))
    except (videos.UnusableError, OSError, ValueError, MemoryError) as error:
        said = str(error) if isinstance(error, videos.UnusableError) else type(error).__name__
        print(said or "it cannot be decoded", file=sys.stderr)
        return 1
    Path(out).write_bytes(frames.tobytes())
    if more:
        Path(out).with_suffix(MORE).touch()
    return 0


def decoded(kind: str, cut: videos.Cut, path: Path) -> tuple[videos.ClipArray, bool]:
    """Decode the first frames with the decoder `kind`, and tell whether there are more."""
    import av
    from av.error import FFmpegError

    try:
        with av.open(str(path), format=kind) as container:
            if not container.streams.video:
                raise videos.UnusableError("it has no video stream")
            stream = container.streams.video[0]
            if stream.width * stream.height > MOST_PIXELS:
                raise videos.UnusableError(f"its frames have more than {MOST_PIXELS:,} pixels")
            stream.thread_count = 1
            frames, more = [], False
            timed = in_order(stream_frames(container, stream, path))
            seen = videos.same_size(timed)
            for frame in seen if cut.fps is None else videos.resample(seen, cut.fps):
                if more := len(frames) == MOST_FRAMES:
                    break
                if frame.width * frame.height > MOST_PIXELS:
                    raise videos.UnusableError("its frames are too large")
                frames.append(videos.place(frame, cut.placement(frame)))
    except FFmpegError as error:
        raise videos.UnusableError("it cannot be decoded") from error
    if not frames:
        raise videos.UnusableError("it has no frames")
    return np.stack(frames), more


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
