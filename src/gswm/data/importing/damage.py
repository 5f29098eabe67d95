"""Detects damaged video files.

After damage, FFmpeg continues: it fills in pictures from others, leaves frames out, and reports it
only in its log. This module reads the log, and compares the number of frames with the announced
one. Decoders report only what they notice; damage that results in another valid stream goes
undetected, see docs/reliability.md.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

MISSING_SHARE = 0.01
MISSING_FRAMES = 3
"""Fraction of a video, and number of frames, that may be missing before it counts as cut short."""
STRICT = {"vp9": "libvpx-vp9"}
"""Decoders that reject damage, in place of FFmpeg's tolerant ones."""


class UnusableError(Exception):
    """A video cannot be imported; the message has a remedy. `frames` is set if it has too few."""

    def __init__(self, why: str, frames: int | None = None) -> None:
        super().__init__(why)
        self.frames = frames


class DamagedError(UnusableError):
    """A video can be read, but is damaged."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; copy it again, or use it as it is with --allow-damaged")


@contextmanager
def decoding(path: Path) -> Iterator[None]:
    """Report in one line that a file is not a video, or cannot be decoded."""
    from av.error import FFmpegError

    if not path.is_file():
        raise UnusableError("it is not a regular file; choose a video")
    if not path.stat().st_size:
        raise UnusableError("the file is empty; copy it again, or choose another video")
    try:
        yield
    except (FFmpegError, ValueError, OverflowError) as error:
        from h5py import is_hdf5

        if is_hdf5(path):
            why = "it is a file of episodes; choose a video, or name the file with --world"
            raise UnusableError(why) from error
        said = str(getattr(error, "strerror", None) or "its headers are invalid").lower()
        raise UnusableError(f"it cannot be decoded ({said}); choose a video") from error


class FFmpegLog:
    """FFmpeg's log level, which all threads share: enabled while any of them listens."""

    def __init__(self) -> None:
        self.lock, self.listeners = Lock(), 0
        self.before: tuple[int | None, bool] = None, True
        logging.getLogger("libav").addHandler(logging.NullHandler())

    @contextmanager
    def errors(self) -> Iterator[list[str]]:
        """Collect the errors that FFmpeg reports in this thread until the block ends."""
        import av.logging as log

        with self.lock:
            if not self.listeners:
                self.before = log.get_level(), log.get_skip_repeated()
                log.set_level(max(log.ERROR, self.before[0] or log.ERROR))
                log.set_skip_repeated(False)
            self.listeners += 1
        said: list[str] = []
        capture = log.Capture(local=True)
        try:
            with capture:
                yield said
        finally:
            errors = (entry for entry in capture.logs if entry[0] <= log.ERROR)
            said += [f"{name}: {text.strip()}" for _, name, text in errors]
            with self.lock:
                self.listeners -= 1
                if not self.listeners:
                    log.set_level(self.before[0])
                    log.set_skip_repeated(self.before[1])


LOG = FFmpegLog()


class Reading:
    """The frames of a stream, decoded one by one, and any damage to them."""

    def __init__(self, container: Any, stream: Any, *, tolerant: bool) -> None:
        self.container, self.stream, self.tolerant = container, stream, tolerant
        self.decoder = decoder_of(stream)
        self.seconds = 0.0
        """The time of the last frame that was read."""
        self.shown = self.packets = self.hidden = 0
        """Numbers of frames, of packets, and of packets without a frame of their own: outside the
        shown part of the video, or empty.
        """
        self.in_fields = False
        """Whether a frame may consist of two packets."""

    def frames(self, keyframes: bool = False) -> Iterator[Any]:
        """All frames, or only keyframes."""
        packets = self.container.demux(self.stream)
        while True:
            with LOG.errors() as said:
                packet = self.next_of(packets)
                frames = [] if packet is None else self.decoded(packet, keyframes)
            if packet is None and not said:
                return
            if said and not self.tolerant:
                raise self.damaged(said[0])
            for frame in frames:
                if frame.is_corrupt and not self.tolerant:
                    raise self.damaged("a frame is corrupt")
                if frame.time_base is None:  # by a decoder other than the stream's default
                    frame.time_base = self.stream.time_base
                self.in_fields = self.in_fields or frame.interlaced_frame
                self.shown += 1
                yield frame
            if packet is None:
                return

    def next_of(self, packets: Iterator[Any]) -> Any:
        """The next packet, or None at the end."""
        with self.enduring():
            return next(packets, None)

    def decoded(self, packet: Any, keyframes: bool) -> list[Any]:
        """The frames that a packet completes."""
        is_end = packet.dts is None and not packet.size
        self.packets += not is_end
        self.hidden += packet.is_discard or (not packet.size and not is_end)
        if not is_end and (not packet.size or (keyframes and not packet.is_keyframe)):
            return []
        with self.enduring():
            return self.decoder.decode(None if is_end else packet)
        return []

    @contextmanager
    def enduring(self) -> Iterator[None]:
        """Continue after an error of FFmpeg, if damage is tolerated."""
        from av.error import FFmpegError

        try:
            yield
        except FFmpegError as error:
            if not self.tolerant:
                raise self.damaged(str(error.strerror).lower()) from error

    def damaged(self, why: str) -> DamagedError:
        """The error for damage at the current position."""
        return DamagedError(f"it is damaged at {self.seconds:.1f} s ({why})")

    def check_whole(self, step: float, *, ended: bool) -> None:
        """Raise unless the video has the announced length; a frame takes `step` seconds."""
        found = self.packets if self.in_fields else self.shown + self.hidden
        announced = self.stream.frames
        if announced and found > announced + most_missing(announced):
            raise DamagedError(f"its header announces {announced} frames, but it has {found}")
        # In an AVI, an empty chunk that counts as a frame repeats the frame before it.
        repeats = self.container.format.name == "avi"
        short = announced and found < announced - most_missing(announced)
        if repeats or not announced:
            seconds = self.announced_seconds()
            short = self.seconds < seconds - step * most_missing(seconds / step)
        if short or not ended:
            raise DamagedError(f"it is cut short at {self.seconds:.1f} s")

    def announced_seconds(self) -> float:
        """The announced length of the video; 0 if unknown."""
        container, stream = self.container, self.stream
        if stream.duration:
            return float(stream.duration * stream.time_base)
        alone = len(container.streams) == 1
        return container.duration / 1e6 if alone and container.duration else 0.0


def most_missing(frames: int | float) -> int | float:
    """The number of announced frames that may be missing."""
    return max(MISSING_FRAMES, MISSING_SHARE * frames)


def ends_early(path: Path) -> bool:
    """Whether this is a GIF without its trailer, its only sign of a complete file."""
    if path.suffix.lower() != ".gif":
        return False
    with path.open("rb") as file:
        file.seek(-min(64, path.stat().st_size), 2)
        return not file.read().rstrip(b"\0").endswith(b";")


def decoder_of(stream: Any) -> Any:
    """The decoder of a stream, with one thread, so that its log belongs to this video alone."""
    import av
    from av.codec.codec import UnknownCodecError

    decoder = stream.codec_context
    if (name := STRICT.get(decoder.name)) is not None:
        with suppress(UnknownCodecError):  # not every build has it
            decoder = av.CodecContext.create(name, "r")
    decoder.thread_type, decoder.thread_count = "NONE", 1
    return decoder
