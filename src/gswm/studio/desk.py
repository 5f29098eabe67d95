"""What is open on one page, and the work on it: each method gives messages, one piece at a time."""

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from gswm.core.errors import UserError
from gswm.data.episode import Episodes
from gswm.models.base import WorldModel
from gswm.studio import branches, exports
from gswm.studio.branches import COLUMNS, Branch, Moments, changed, imagine, join, moments_of
from gswm.studio.catalog import Catalog
from gswm.studio.protocol import MOST_EDITS, Edit, ExportRequest, Masks, Open, ViewSettings, encode
from gswm.viz import pictures
from gswm.viz.imagination import renamed

MEMORY = 1 << 29
"""Bytes of futures that are kept; older ones are imagined again when they are shown."""
LIVE_STEPS = 24
"""Frames that are imagined while an object is dragged."""
CHUNK = 5
"""Frames that are inferred at once: an edit waits no longer than for these."""

Work = Iterator[bytes]


class Desk:
    """A video, a model, and the branches of what it imagines."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.model: WorldModel[Any]
        """Set when a video is opened."""
        self.episodes: Episodes | None = None
        self.truth: pictures.PixelBoxes | None = None
        self.settings = ViewSettings()
        self.branches: list[Branch] = []
        self.opening = False
        """Whether what is open is not all there yet: edits wait."""
        self.rest: Work | None = None
        """What is done when there is nothing else to do."""

    def open(self, message: Open) -> Work:
        """Show a video to a model, do the edits, and imagine the branch that is shown."""
        self.opening = True
        try:
            yield from self.opened(message)
        finally:
            self.opening = False
        yield from self.show(min(message.current, len(self.branches) - 1))

    def opened(self, message: Open) -> Work:
        """What the model sees in the given frames, and a branch for each edit."""
        model = self.catalog.model(message.model)
        size = model.image_size
        episodes = self.catalog.episode(message.world, message.episode, size)
        video = episodes.video
        if video.shape[-1] != size:
            raise UserError(f"this model takes frames of {size} pixels, not {video.shape[-1]}")
        if model.num_actions:
            raise UserError("this model needs actions, and the studio gives none")
        given = min(message.settings.given, video.shape[1])
        self.settings = replace(message.settings, given=given)
        self.model, self.episodes, self.branches, self.rest = model, episodes, [], None
        how = "always" if self.catalog.is_own(message.world) else "first"
        behind = self.catalog.background(message.model, message.world, message.episode)
        seen = model.infer(video[:, :given], discover=how, background=behind)
        past = moments_of(model, seen)
        self.truth = true_boxes(episodes, past, size)
        head = {"type": "opened", "model": message.model, "world": message.world}
        head |= {"episode": message.episode, "settings": asdict(self.settings), "size": size}
        head |= {"columns": COLUMNS, "edits": model.editable}
        arrays = {} if self.truth is None else {"truth": as_objects(self.truth, size)}
        pixels = video[0].permute(0, 2, 3, 1).cpu().numpy()
        yield encode(head, **arrays, pixels=pixels)
        root = Branch(0, None, tuple(past[i : i + 1] for i in range(given)), 0)
        self.branches.append(root)
        self.rest = self.reconstruct(past)
        yield self.told(root)
        for edit in message.edits:
            try:
                yield self.told(self.add(edit))
            except UserError as error:
                yield encode({"type": "error", "line": f"an edit was left out: {error}"})
                break

    def edit(self, edit: Edit) -> Work:
        """Make a branch, or only show what it would be, and imagine it."""
        if edit.live:
            begin = time.perf_counter()
            branch = self.branched(edit, len(self.branches))
            alone = replace(self.settings, futures=1)
            yield self.told(branch, "preview")
            steps = min(LIVE_STEPS, self.length - branch.frame - 1)
            yield from self.imagined(branch, alone, steps, "preview", begin)
        else:
            begin = time.perf_counter()
            branch = self.add(edit)
            yield self.told(branch)
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
        """The futures of a branch as messages; the last says how fast it went."""
        at, first = branch.frame + 1, 0.0
        for piece in imagine(self.model, branch, settings, steps):
            branch.futures.append(piece)
            first = first or time.perf_counter() - begin
            head = {"type": kind, "branch": branch.number, "at": at}
            yield encode(head, **arrays_of(piece))
            at += len(piece)
        seconds = time.perf_counter() - begin
        figures = {"first_ms": 1e3 * first, "frames_per_second": steps / seconds if steps else 0}
        yield encode({"type": "done", "kind": kind, "branch": branch.number} | figures)

    def reconstruct(self, past: Moments) -> Work:
        """What the model sees in the frames after those that are given."""
        assert self.episodes is not None
        video, given = self.episodes.video, len(past)
        yield encode({"type": "seen", "at": 0}, **arrays_of(past))
        if not self.model.editable:
            return
        state = past.states[-1]
        for at in range(given, min(video.shape[1], self.length), CHUNK):
            frames = video[:, at : min(at + CHUNK, self.length)]
            track = self.model.infer_after(state, frames, discover="always")
            yield encode(
                {"type": "seen", "at": at}, **arrays_of(moments_of(self.model, track, state))
            )
            state = track.state_at(-1)

    def masks(self, message: Masks) -> Work:
        """Which object is seen at each pixel, for each frame of a branch."""
        branch = self.branch(message.branch)
        if not self.model.editable:
            raise UserError("this model does not say which object a pixel is of")
        self.complete(branch)
        for at in range(0, self.length, CHUNK):
            owners = []
            for frame in range(at, min(at + CHUNK, self.length)):
                moment = branch.at(message.future, frame)
                owner = self.model.owners(moment.states[0])[0]
                owners.append(owner.clamp(-1, 254).remainder(256).to(torch.uint8).cpu().numpy())
            head = {"type": "masks", "branch": branch.number, "future": message.future, "at": at}
            yield encode(head, owners=np.stack(owners))

    def export(self, message: ExportRequest) -> Work:
        """A file of a branch."""
        branch = self.branch(message.branch)
        shown = [branch] if message.compare < 0 else [branch, self.branch(message.compare)]
        for each in shown:
            self.complete(each)
        assert self.episodes is not None
        picture = exports.ExportedView(
            video=self.episodes.video[0].permute(0, 2, 3, 1).cpu().numpy(),
            truth=self.truth,
            branches=tuple(exports.line(each) for each in shown),
            names=tuple(f"branch {each.number}" for each in shown),
            future=message.future,
            boxes=message.boxes,
            trail=message.trail,
        )
        data = exports.FILES[message.kind](picture)
        head = {"type": "file", "name": f"gswm-branch-{branch.number}.{message.kind}"}
        yield encode(head, data=np.frombuffer(data, np.uint8))

    def add(self, edit: Edit) -> Branch:
        """A branch more."""
        if len(self.branches) > MOST_EDITS:
            raise UserError(f"there are {MOST_EDITS} edits: open the episode anew to go on")
        branch = self.branched(edit, len(self.branches))
        self.branches.append(branch)
        return branch

    def branched(self, edit: Edit, number: int) -> Branch:
        """The branch that an edit makes."""
        source = self.branch(edit.branch)
        if edit.frame >= self.length:
            raise UserError(f"there is no frame {edit.frame}: there are {self.length}")
        if edit.frame - source.frame > source.imagined:
            self.complete(source)
        before = [source.at(edit.future, frame) for frame in range(edit.frame + 1)]
        new = changed(self.model, before, edit.change)
        kept = before[: len(before) - len(new)]
        moments = (*kept, *(new[i : i + 1] for i in range(len(new))))
        return Branch(number, edit, moments, len(kept))

    def complete(self, branch: Branch) -> None:
        """All futures of a branch, imagined again if they were dropped or not finished."""
        steps = self.length - branch.frame - 1
        if branch.imagined < steps:
            branch.futures[:] = imagine(self.model, branch, self.settings, steps)
        self.forget(branch)

    def forget(self, kept: Branch) -> None:
        """Drop the futures of the oldest branches where there are too many."""
        total = sum(branch.bytes() for branch in self.branches)
        for branch in self.branches:
            if total <= MEMORY:
                return
            if branch is not kept:
                total -= branch.bytes()
                branch.futures.clear()

    def branch(self, number: int) -> Branch:
        """A branch by its number."""
        if not 0 <= number < len(self.branches):
            raise UserError(f"there is no branch {number}: there are {len(self.branches)}")
        return self.branches[number]

    @property
    def length(self) -> int:
        """Frames of the whole: given and imagined."""
        return self.settings.given + self.settings.steps

    def told(self, branch: Branch, kind: str = "branch") -> bytes:
        """What the page needs to know of a new branch: the frames that are its own."""
        edit = branch.edit
        head = {"type": kind, "branch": branch.number, "first": branch.first}
        head |= {"frame": branch.frame, "edit": None if edit is None else asdict(edit)}
        head["request"] = 0 if edit is None else edit.request
        return encode(head, **arrays_of(join(branch.moments[branch.first :])))


def arrays_of(moments: Moments) -> dict[str, np.ndarray]:
    """Moments as a message has them; a background that is black throughout is left out."""
    arrays = {"objects": moments.objects, "pixels": moments.pixels}
    if moments.background.any():
        arrays["background"] = moments.background
    return arrays


def true_boxes(episodes: Episodes, past: Moments, size: int) -> pictures.PixelBoxes | None:
    """The true boxes, where they are known, with the ids that the model gives."""
    truth = pictures.true_boxes(episodes, 0)
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
