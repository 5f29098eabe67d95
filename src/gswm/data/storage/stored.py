"""Episodes as files and loaders hold them: pictures are (height, width, channel)."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from gswm.core.records import map_tensors, tensors
from gswm.data.episode import Episodes


@dataclass(frozen=True)
class StoredEpisodes:
    """The parts of episodes, or of windows of them, that training sees."""

    video: UInt8[Tensor, "episode time height width 3"]
    actions: Float32[Tensor, "episode time action"] | None = None
    rewards: Float32[Tensor, "episode time"] | None = None
    background: UInt8[Tensor, "episode height width 3"] | None = None

    @staticmethod
    def of(episodes: Episodes) -> "StoredEpisodes":
        """The same values, seen in the order of files."""
        background = episodes.background
        return StoredEpisodes(
            episodes.video.permute(0, 1, 3, 4, 2),
            episodes.actions,
            episodes.rewards,
            None if background is None else background.permute(0, 2, 3, 1),
        )

    def __len__(self) -> int:
        return len(self.video)

    def __getitem__(self, which: slice) -> "StoredEpisodes":
        return map_tensors(lambda tensor: tensor[which], self)

    def first_frames(self, number: int) -> "StoredEpisodes":
        """The first frames of all episodes, as a view."""

        def first(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor[:, :number]

        timed = {name: first(getattr(self, name)) for name in ("actions", "rewards")}
        return replace(self, video=self.video[:, :number], **timed)

    def room(
        self,
        episodes: int,
        frames: int,
        device: str | torch.device = "cpu",
        pin_memory: bool = False,
    ) -> "StoredEpisodes":
        """Uninitialized memory for other episodes with the same parts."""

        def new(tensor: Tensor | None, *shape: int) -> Tensor | None:
            if tensor is None:
                return None
            shape = (episodes, *shape, *tensor.shape[1 + len(shape) :])
            return torch.empty(shape, dtype=tensor.dtype, device=device, pin_memory=pin_memory)

        video = new(self.video, frames)
        assert video is not None
        return StoredEpisodes(
            video, new(self.actions, frames), new(self.rewards, frames), new(self.background)
        )

    def copy_(self, other: "StoredEpisodes") -> None:
        """Take over the values of episodes with the same parts."""
        for ours, theirs in zip(tensors(self), tensors(other), strict=True):
            ours.copy_(theirs)

    def extras(self) -> dict[str, int]:
        """The parts that not all data have, and how many numbers a frame has of each."""
        found = {}
        if self.actions is not None:
            found["actions"] = self.actions.shape[2]
        return found | {n: 1 for n in ("rewards", "background") if getattr(self, n) is not None}
