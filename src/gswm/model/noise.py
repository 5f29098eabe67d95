"""All that is random in a step, drawn before it: the rest of the model is a function."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gswm.distributions import logistic_noise, normal_noise
from gswm.model.discovery import DiscoveryNoise
from gswm.model.propagation import PropagationNoise
from gswm.objects import Sizes
from gswm.records import map_tensors


@dataclass(frozen=True)
class Noise:
    """For some frames of some videos."""

    context: Float[Tensor, "*batch context"]
    propagation: PropagationNoise
    discovery: DiscoveryNoise
    keep: Bool[Tensor, "*batch"]
    """In which frames there is discovery."""

    def rows(self, which: slice) -> "Noise":
        """Of some of the videos."""
        return map_tensors(lambda tensor: tensor[which], self)

    def frame(self, t: int) -> "Noise":
        """Of one frame of each video."""
        return map_tensors(lambda tensor: tensor[:, t], self)


@dataclass(frozen=True)
class NoiseShape:
    """How much noise a frame needs."""

    sizes: Sizes
    num_objects: int
    num_cells: int

    def draw(self, batch: int, time: int, dropout: float, generator: torch.Generator) -> Noise:
        """Noise to sample with."""
        return Noise(
            normal_noise((batch, time, self.sizes.context), generator),
            PropagationNoise(*self.of(batch, time, self.num_objects, generator)),
            DiscoveryNoise(*self.of(batch, time, self.num_cells, generator)),
            frames_to_discover_in(batch, time, dropout, generator),
        )

    def of(self, batch: int, time: int, num: int, generator: torch.Generator) -> list[Tensor]:
        """For `num` objects or cells: of state, attributes and presence."""
        lead = (batch, time, num)
        gaussian = [(*lead, self.sizes.state), (*lead, self.sizes.z_att)]
        noise = [normal_noise(shape, generator) for shape in gaussian]
        return [*noise, logistic_noise((*lead, 1), generator)]

    def none(self, batch: int, time: int, keep: Bool[Tensor, " time"]) -> Noise:
        """No noise at all: every distribution gives its mean."""
        sizes, zero = self.sizes, torch.zeros((), device=keep.device)

        def zeros(num: int) -> list[Tensor]:
            return [zero.expand(batch, time, num, n) for n in (sizes.state, sizes.z_att, 1)]

        propagation = PropagationNoise(*zeros(self.num_objects))
        discovery = DiscoveryNoise(*zeros(self.num_cells))
        context = zero.expand(batch, time, sizes.context)
        return Noise(context, propagation, discovery, keep.expand(batch, time))


def frames_to_discover_in(
    batch: int, time: int, dropout: float, generator: torch.Generator
) -> Bool[Tensor, "batch time"]:
    """Discovery dropout: the first frame, and a share of the others.

    Every video has a fixed number of them, rounded down and up in turn, so that the work of a
    step does not depend on the draw.
    """
    order = torch.rand((batch, time), generator=generator, device=generator.device)
    order[:, 0] = -1
    row = torch.arange(batch, device=generator.device)
    kept = 1 + ((time - 1) * (1 - dropout) + (row % 2) / 2).long()
    return order.argsort(dim=1).argsort(dim=1) < kept[:, None]
