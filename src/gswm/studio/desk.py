"""The open view of one page, and its work: each method yields messages, one piece at a time."""

import time
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from gswm.core.errors import UserError
from gswm.data.episode import Episodes
from gswm.eval.explained import measure_track
from gswm.models.base import WorldModel
from gswm.studio import branches
from gswm.studio.branches import (
    COLUMNS,
    Branch,
    Moments,
    changed,
    futures_of,
    held,
    imagine,
    join,
    moments_along,
    moments_of,
)
from gswm.studio.catalog import Catalog, PreparedView
from gswm.studio.exports import ExportOrder
from gswm.studio.perceiving import CHUNK, perceived
from gswm.studio.protocol import MOST_EDITS, Edit, ExportRequest, Masks, Open, ViewSettings, encode
from gswm.tracking import misfit
from gswm.viz import pictures
from gswm.viz.episodes import true_boxes
from gswm.viz.imagination import renamed

MEMORY = 1 << 29
"""Bytes of futures to keep; older ones are imagined again when they are shown."""
EDITED_MEMORY = 1 << 29
"""Maximum bytes of edited frames; further edits are refused."""
LIVE_STEPS = 24
"""Number of frames to imagine while an object is dragged."""
NO_FUTURE = (
    "nothing is imagined after the last frame: edit an earlier frame, or imagine more frames"
)

Work = Iterator[bytes | Future[Any]]
"""Yields messages; an empty message after a piece of work without output; or a future to wait for.
"""
Making = Generator[bytes, None, Branch]
Preparing = Generator[Future[Any], None, PreparedView]


class Desk:
    """A video, a model, and the branches of its imagination."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.model: WorldModel[Any]
        """Set when a video is opened."""
        self.episodes: Episodes | None = None
        self.truth: pictures.PixelBoxes | None = None
        self.opened_with = self.shown = ""
        """The names of the model, and of the world or upload."""
        self.settings = ViewSettings()
        self.branches: list[Branch] = []
        self.chunks: list[Moments] = []
        """The inferred given frames, which other pages may share."""
        self.unfinished = False
        """Whether a video or an edit is incomplete; later requests wait for it."""
        self.completing = False
        """Whether the page shows a video whose given frames or edits are incomplete."""
        self.own_bytes = 0
        """Memory of the branches without their futures, in bytes."""
        self.followed: tuple[Branch, int, list[Moments]] | None = None
        """A branch, one of its futures, and its frames up to an object that is being dragged."""
        self.rest: Work | None = None
        """Work for idle times."""

    def open(self, message: Open) -> Work:
        """Show a video, then infer it, apply the edits, and imagine the shown branch."""
        self.unfinished = True
        try:
            prepared = yield from self.prepared(message)
            yield self.opened(message, prepared)
            yield from self.inferred(prepared)
            yield from self.edited(message.edits)
        finally:
            self.unfinished = self.completing = False
            if not self.branches:
                self.chunks = []  # another video is opened meanwhile, or the inference failed
        yield from self.show(min(message.current, len(self.branches) - 1))

    def prepared(self, message: Open) -> Preparing:
        """Wait for a model and a video, and check that they fit."""
        preparing = self.catalog.prepare(message.model, message.world, message.episode)
        try:
            yield preparing
        finally:
            preparing.cancel()  # in case another video is opened meanwhile
        found = preparing.result()
        size, side = found.model.image_size, found.episodes.video.shape[-1]
        if side != size:
            raise UserError(f"this model expects frames of {size} pixels, not {side}")
        if found.model.num_actions:
            raise UserError("this model needs actions, which the studio does not provide")
        return found

    def opened(self, message: Open, prepared: PreparedView) -> bytes:
        """Replace the open video; the message about the new one needs no inference."""
        model, episodes = prepared.model, prepared.episodes
        given = min(message.settings.given, episodes.video.shape[1])
        self.settings = replace(message.settings, given=given)
        self.model, self.episodes, self.truth = model, episodes, None
        self.branches, self.chunks, self.rest = [], [], None
        self.own_bytes, self.followed = 0, None
        self.opened_with, self.shown = message.model, message.world
        self.completing = True
        head = {"type": "opened", "model": message.model, "world": message.world}
        head |= {"episode": message.episode, "settings": asdict(self.settings)}
        head |= {"size": model.image_size, "columns": COLUMNS, "edits": model.editable}
        return encode(head, pixels=episodes.video[0].permute(0, 2, 3, 1).cpu().numpy())

    def inferred(self, prepared: PreparedView) -> Work:
        """Infer the given frames in chunks, and create the branch that has no edit."""
        model, episodes, given = prepared.model, prepared.episodes, self.settings.given
        how = "always" if self.catalog.is_own(self.shown) else "first"
        kept, at = self.catalog.chunks_of(self.opened_with), 0
        for part in perceived(model, episodes.video[:, :given], how, prepared.background, kept):
            self.chunks.append(part)
            yield encode({"type": "seen", "at": at}, **arrays_of(part))
            at += len(part)
        past = join(self.chunks)
        self.truth = renamed_truth(episodes, past, model.image_size)
        if self.truth is not None:
            yield encode({"type": "truth"}, objects=as_objects(self.truth, model.image_size))
        root = Branch(0, None, tuple(past[i : i + 1] for i in range(given)), 0)
        self.branches.append(root)
        self.rest = self.reconstruct(past)
        yield self.told(root)

    def edited(self, edits: Iterable[Edit]) -> Work:
        """Create a branch for each edit, up to the first one that does not fit."""
        for edit in edits:
            try:
                branch = yield from self.add(edit)
            except UserError as error:
                line = f"an edit was skipped: {error}"
                yield encode({"type": "error", "line": line, "request": 0, "of": "edits"})
                return
            yield self.told(branch)

    def edit(self, edit: Edit) -> Work:
        """Create a branch, or only a preview of it, and imagine its futures."""
        begin = time.perf_counter()
        if edit.live:
            branch = yield from self.branched(edit, len(self.branches))
            alone = replace(self.settings, futures=1)
            yield self.told(branch, "preview")
            steps = min(LIVE_STEPS, self.length - branch.frame - 1)
            yield from self.imagined(branch, alone, steps, "preview", begin)
            return
        self.unfinished = True
        try:
            branch = yield from self.add(edit)
        finally:
            self.unfinished = False
        yield self.told(branch)
        if branch.frame + 1 >= self.length:
            yield encode({"type": "note", "line": NO_FUTURE})
        yield from self.show(branch.number, begin)

    def show(self, number: int, begin: float | None = None) -> Work:
        """The futures of a branch, from their start."""
        branch = self.branch(number)
        begin = time.perf_counter() if begin is None else begin
        branch.futures.clear()
        steps = self.length - branch.frame - 1
        for message in self.imagined(branch, self.settings, steps, "futures", begin):
            self.forget(branch)
            yield message

    def imagined(
        self, branch: Branch, settings: ViewSettings, steps: int, kind: str, begin: float
    ) -> Work:
        """Send the futures of a branch, and finally their speed."""
        at, first = branch.frame + 1, 0.0
        for piece in imagine(self.model, branch, settings, steps):
            if branch.imagined == at - branch.frame - 1:  # none has been dropped
                branch.futures.append(piece)
            first = first or time.perf_counter() - begin
            head = {"type": kind, "branch": branch.number, "at": at}
            yield encode(head, **arrays_of(piece))
            at += len(piece)
        seconds = time.perf_counter() - begin
        figures = {"first_ms": 1e3 * first, "frames_per_second": steps / seconds if steps else 0}
        yield encode({"type": "done", "kind": kind, "branch": branch.number} | figures)

    def reconstruct(self, past: Moments) -> Work:
        """Infer the frames after the given ones, and check whether the model fits."""
        assert self.episodes is not None
        video, given = self.episodes.video, len(past)
        seen = [past]
        state = past.states[-1]
        last = min(video.shape[1], self.length) if self.model.editable else given
        for at in range(given, last, CHUNK):
            frames = video[:, at : min(at + CHUNK, self.length)]
            track = self.model.infer_after(state, frames, discover="always")
            seen.append(moments_of(self.model, self.model.settled(track), state))
            yield encode({"type": "seen", "at": at}, **arrays_of(seen[-1]))
            state = track.state_at(-1)
        if line := self.misfit(seen):
            yield encode({"type": "note", "line": line})

    def misfit(self, seen: list[Moments]) -> str | None:
        """A warning if the model does not fit the video, judged by the frames in `seen`.

        A model in memory is not judged, since its validation error is unknown.
        """
        assert self.episodes is not None
        header = self.catalog.models[self.opened_with].header
        if header is None or sum(map(len, seen)) < 2:
            return None

        whole = branches.join(seen)
        pixels = torch.from_numpy(whole.pixels).movedim(-1, 1)[None] / 255
        track = replace(branches.track_of([whole], torch.device("cpu")), reconstruction=pixels)
        video = self.episodes.video[:, : pixels.shape[1]].cpu()
        share = measure_track(self.model, video, track)
        own = self.episodes.truth is None
        return misfit.warning(share, header, video="this video" if own else self.shown, own=own)

    def masks(self, message: Masks) -> Work:
        """The visible object at each pixel, for each frame of a branch of the video open now."""
        return self.owners(message, self.branches)

    def owners(self, message: Masks, opened: list[Branch]) -> Work:
        """The masks of a branch, unless another video is opened meanwhile."""
        if self.branches is not opened:
            return
        branch = self.branch(message.branch)
        if not self.model.editable:
            raise UserError("this model does not assign pixels to objects")
        owners: list[np.ndarray] = []
        head = {"type": "masks", "branch": branch.number, "future": message.future}
        for at, moment in enumerate(self.along(branch, message.future), start=1):
            owner = self.model.owners(moment.states[0])[0]
            owners.append(owner.clamp(-1, 254).remainder(256).to(torch.uint8).cpu().numpy())
            if len(owners) == CHUNK or at == self.length:
                yield encode(head | {"at": at - len(owners)}, owners=np.stack(owners))
                owners.clear()
            else:
                yield b""
            if self.branches is not opened:
                return

    def order(self, message: ExportRequest) -> ExportOrder:
        """The content of an exported file."""
        branch = self.branch(message.branch)
        shown = [branch] if message.compare < 0 else [branch, self.branch(message.compare)]
        assert self.episodes is not None
        video = self.episodes.video[0].permute(0, 2, 3, 1).cpu().numpy()
        order = ExportOrder(message, self.model, self.settings, video, self.truth, tuple(shown))
        order.check()
        return order

    def add(self, edit: Edit) -> Making:
        """Add a branch."""
        if len(self.branches) > MOST_EDITS:
            raise UserError(
                f"the limit of {MOST_EDITS} edits is reached: reopen the episode to continue"
            )
        branch = yield from self.branched(edit, len(self.branches))
        shared = {id(moment) for moment in self.branch(edit.branch).moments}
        own = sum(held(moment) for moment in branch.moments if id(moment) not in shared)
        if self.own_bytes + own > EDITED_MEMORY:
            raise UserError("these edits take too much memory: reopen the episode to continue")
        self.own_bytes += own
        self.branches.append(branch)
        return branch

    def branched(self, edit: Edit, number: int) -> Making:
        """Create the branch of an edit."""
        source = self.branch(edit.branch)
        if edit.frame >= self.length:
            raise UserError(f"there is no frame {edit.frame}; there are {self.length}")
        before = yield from self.until(source, edit)
        new = changed(self.model, before, edit.change)
        kept = before[: len(before) - len(new)]
        moments = (*kept, *(new[i : i + 1] for i in range(len(new))))
        return Branch(number, edit, moments, len(kept))

    def until(self, source: Branch, edit: Edit) -> Generator[bytes, None, list[Moments]]:
        """The frames of a branch up to that of an edit; reused during a drag."""
        count = edit.frame + 1
        if count <= len(source.moments):
            return list(source.moments[:count])
        if self.followed is not None:
            branch, future, found = self.followed
            if branch is source and future == edit.future and len(found) >= count:
                return found[:count]
        found = []
        needed = edit.frame - source.frame
        for moment in islice(self.along(source, edit.future, needed), count):
            found.append(moment)
            if source.imagined < needed:  # imagined again
                yield b""
        self.followed = (source, edit.future, found) if edit.live else None
        return list(found)

    def along(self, branch: Branch, future: int, needed: int | None = None) -> Iterator[Moments]:
        """The frames of a branch one by one, along one of its futures; `needed` of the futures."""
        steps = self.length - branch.frame - 1
        futures = futures_of(self.model, branch, self.settings, steps, needed)
        return moments_along(branch, future, futures)

    def forget(self, shown: Branch) -> None:
        """Drop the futures of the oldest branches if there are too many; `shown` comes last."""
        total = sum(branch.bytes() for branch in self.branches)
        for branch in (*(each for each in self.branches if each is not shown), shown):
            if total <= MEMORY:
                return
            total -= branch.bytes()
            branch.futures.clear()

    def branch(self, number: int) -> Branch:
        """Look up a branch by number."""
        if not self.branches:
            raise UserError("no video is open: open one first")
        if not 0 <= number < len(self.branches):
            raise UserError(f"there is no branch {number}; there are {len(self.branches)}")
        return self.branches[number]

    @property
    def length(self) -> int:
        """Total number of frames, given and imagined."""
        return self.settings.given + self.settings.steps

    def told(self, branch: Branch, kind: str = "branch") -> bytes:
        """The message about a new branch, with the frames that its parent lacks."""
        edit = branch.edit
        head = {"type": kind, "branch": branch.number, "first": branch.first}
        head |= {"frame": branch.frame, "edit": None if edit is None else asdict(edit)}
        head["request"] = 0 if edit is None else edit.request
        return encode(head, **arrays_of(join(branch.moments[branch.first :])))


def arrays_of(moments: Moments) -> dict[str, np.ndarray]:
    """Moments as arrays of a message; an entirely black background is omitted."""
    arrays = {"objects": moments.objects, "pixels": moments.pixels}
    if moments.background.any():
        arrays["background"] = moments.background
    return arrays


def renamed_truth(episodes: Episodes, past: Moments, size: int) -> pictures.PixelBoxes | None:
    """The ground-truth boxes, if known, with the ids of the model."""
    truth = true_boxes(episodes, 0)
    if truth is None:
        return None
    seen = branches.track_of([past], torch.device("cpu")).boxes(0, size=(size, size))
    return renamed(truth, seen, len(past) - 1)


def as_objects(boxes: pictures.PixelBoxes, size: int) -> Float[np.ndarray, "time object 11"]:
    """Boxes in the columns of objects."""
    out = np.zeros((*boxes.ids.shape, len(COLUMNS)), np.float32)
    out[..., :2] = 2 * boxes.xy / size - 1
    out[..., 2:4] = boxes.wh[..., ::-1] / size
    out[..., 5] = boxes.present
    out[..., 6] = np.where(boxes.present, boxes.ids, -1)
    return out
