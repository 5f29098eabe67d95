"""Episodes in the memory layout of files and loaders: pictures are (height, width, channel)."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from gswm.core.records import map_tensors, tensors
from gswm.data.episode import Episodes


@dataclass(frozen=True)
class StoredEpisodes:
    """The parts of episodes, or of windows of them, that training uses."""

    video: UInt8[Tensor, "episode time height width 3"]
    actions: Float32[Tensor, "episode time action"] | None = None
    rewards: Float32[Tensor, "episode time"] | None = None
    background: UInt8[Tensor, "episode height width 3"] | None = None
    labels: Float32[Tensor, "episode time box 6"] | None = None
    """See `Labels.packed`."""

    @staticmethod
    def of(episodes: Episodes, *, labels: bool = False) -> "StoredEpisodes":
        """The same values, viewed in the order of files; `labels` adds those of the truth."""
        background, truth, boxes = episodes.background, episodes.truth, episodes.labels
        if labels and truth is not None:
            boxes = truth.labels(episodes.video.shape[-1])
        return StoredEpisodes(
            episodes.video.permute(0, 1, 3, 4, 2),
            episodes.actions,
            episodes.rewards,
            None if background is None else background.permute(0, 2, 3, 1),
            boxes.packed() if labels and boxes is not None else None,
        )

    def __len__(self) -> int:
        return len(self.video)

    def __getitem__(self, which: slice) -> "StoredEpisodes":
        return map_tensors(lambda tensor: tensor[which], self)

    def first_frames(self, number: int) -> "StoredEpisodes":
        """The first frames of all episodes, as a view."""
        timed = {name: getattr(self, name) for name in ("video", "actions", "rewards", "labels")}
        return replace(self, **map_tensors(lambda tensor: tensor[:, :number], timed))

    def room(
        self,
        episodes: int,
        frames: int,
        device: str | torch.device = "cpu",
        pin_memory: bool = False,
    ) -> "StoredEpisodes":
        """Uninitialized memory for other episodes with the same parts."""

        def new(record: Any, *shape: int) -> Any:
            def room(tensor: Tensor) -> Tensor:
                full = (episodes, *shape, *tensor.shape[1 + len(shape) :])
                return torch.empty(full, dtype=tensor.dtype, device=device, pin_memory=pin_memory)

            return map_tensors(room, record)

        return StoredEpisodes(
            video=new(self.video, frames),
            actions=new(self.actions, frames),
            rewards=new(self.rewards, frames),
            background=new(self.background),
            labels=new(self.labels, frames),
        )

    def copy_(self, other: "StoredEpisodes") -> None:
        """Copy the values of episodes with the same parts."""
        for ours, theirs in zip(tensors(self), tensors(other), strict=True):
            ours.copy_(theirs)

    def extras(self) -> dict[str, int]:
        """The optional parts, and their numbers per frame."""
        found = {}
        if self.actions is not None:
            found["actions"] = self.actions.shape[2]
        if self.labels is not None:
            found["labels"] = self.labels.shape[2]
        return found | {n: 1 for n in ("rewards", "background") if getattr(self, n) is not None}
