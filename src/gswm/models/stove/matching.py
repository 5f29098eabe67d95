"""State matching: the assignment of objects between consecutive frames.

The encoder sees single frames, so the order of its objects is arbitrary. They are assigned to the
objects of the previous frame, such that the total squared distance is smallest:

    σ_t = argmin_σ Σ_i ‖p_{t-1,i} - p_{t,σ(i)}‖²      p = (xy + 1) / 2, and the hue if wanted
    π_t = σ_t ∘ π_{t-1}                                the order of frame t, π_0 as it came

σ_t does not depend on the order of the frame before, so all frames are matched at once. With
both frames in order, differences of positions are velocities.
"""

from itertools import permutations

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor, nn

from gswm.core.distributions import Gaussian

Orders = Int[Tensor, "batch time object"]
MOST = 6
"""Largest number of objects for which all orders are tried; with more, the nearest pairs go first.
"""


class Matching(nn.Module):
    """Puts the objects of all frames in the order of the first."""

    def __init__(self, num_objects: int) -> None:
        super().__init__()
        all_orders = list(permutations(range(num_objects))) if num_objects <= MOST else [()]
        self.orders: Tensor
        self.register_buffer("orders", torch.tensor(all_orders).long(), persistent=False)

    def forward(self, features: Float[Tensor, "batch time object feature"]) -> Orders:
        """The permutation that orders the objects of each frame; it passes no gradient."""
        before, after = features.detach()[:, :-1], features.detach()[:, 1:]
        cost = (before[..., :, None, :] - after[..., None, :, :]).square().sum(dim=-1)
        pairs = cost.flatten(0, 1)
        steps = (self.best(pairs) if self.orders.numel() else greedy(pairs)).view(cost.shape[:3])
        order = torch.arange(cost.shape[2], device=cost.device).expand(len(cost), -1)
        whole = [order]
        for step in steps.unbind(dim=1):
            whole.append(order := step.gather(1, order))
        return torch.stack(whole, dim=1)

    def best(self, cost: Float[Tensor, "pair before after"]) -> Int[Tensor, "pair before"]:
        """The cheapest of all assignments."""
        slots = torch.arange(cost.shape[-1], device=cost.device)
        takes = (self.orders[..., None] == slots).to(cost.dtype)
        return self.orders[einsum(cost, takes, "n i j, p i j -> n p").argmin(dim=1)]


def greedy(cost: Float[Tensor, "pair before after"]) -> Int[Tensor, "pair before"]:
    """Match the cheapest pair first, then the cheapest of the rest."""
    number, slots = cost.shape[-1], torch.arange(cost.shape[-1], device=cost.device)
    taken = torch.zeros_like(cost[..., 0], dtype=torch.long)
    for _ in range(number):
        row, column = (best := cost.flatten(1).argmin(dim=1)) // number, best % number
        taken = torch.where(slots == row[:, None], column[:, None], taken)
        gone = (slots[:, None] == row[:, None, None]) | (slots == column[:, None, None])
        cost = cost.masked_fill(gone, torch.inf)
    return taken


def in_order(values: Float[Tensor, "batch time object n"], order: Orders) -> Tensor:
    """The objects of each frame, reordered."""
    return values.gather(2, order[..., None].expand_as(values))


def with_velocities(where: Gaussian) -> Gaussian:
    """(s_x, q, x, y) of matched frames, and their velocities, which are 0 in the first frame.

    The means are differences, so the variances add up.
    """
    xy = where.part(slice(2, None))
    moved = torch.cat([torch.zeros_like(xy.mean[:, :1]), xy.mean.diff(dim=1)], dim=1)
    both = (xy.std[:, 1:].square() + xy.std[:, :-1].square()).sqrt()
    return Gaussian.joined([where, Gaussian(moved, torch.cat([xy.std[:, :1], both], dim=1))])
