"""One-to-one matching of predicted and true objects."""

import torch
from jaxtyping import Bool, Float64, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from gswm.core.shapes import NOBODY
from gswm.eval.metrics.boxes import Boxes, distances


def best_pairs(
    gain: Float64[Tensor, "*row left right"],
) -> Bool[Tensor, "*row left right"]:
    """The one-to-one pairs with the largest total gain; pairs without gain are left out."""
    worth = gain > 0
    if not worth.any():
        return worth
    pairs = worth.reshape(-1, *gain.shape[-2:]).clone()
    values = gain.reshape(pairs.shape).clamp_min(0).numpy()
    contested = (pairs.sum(dim=1) > 1).any(dim=1) | (pairs.sum(dim=2) > 1).any(dim=1)
    for row in contested.nonzero()[:, 0].tolist():
        left, right = linear_sum_assignment(values[row], maximize=True)
        pairs[row] = False
        pairs[row, left, right] = True
    return pairs.reshape(gain.shape) & worth


def least_pairs(
    cost: Float64[Tensor, "*row left right"], allowed: Bool[Tensor, "*row left right"]
) -> Bool[Tensor, "*row left right"]:
    """As many allowed pairs as possible, with the least total cost."""
    if not allowed.any():
        return allowed
    cost = torch.where(allowed, cost, 0)
    span = cost.max() - cost.min() + 1
    # An additional pair is worth more than any saving on all others.
    most = span * (min(cost.shape[-2:]) + 1)
    return best_pairs(torch.where(allowed, most - (cost - cost.min()), 0))


def nearest_ids(
    true: Boxes, predicted: Boxes, frame: int, limit: float
) -> Int[Tensor, "row object"]:
    """The id of the predicted object matched to each true one in a single frame.

    Matching minimizes squared distances. Pairs further apart than `limit` are left out; NOBODY
    stands for no match.
    """
    apart = distances(true.xy[:, frame], predicted.xy[:, frame])
    there = true.there[:, frame, :, None] & predicted.there[:, frame, None, :]
    pairs = least_pairs(apart.square(), there & (apart <= limit))
    return partner(pairs, predicted.id[:, frame])


def partner(
    pairs: Bool[Tensor, "*row left right"], id: Int[Tensor, "*row right"]
) -> Int[Tensor, "*row left"]:
    """The id matched to each object on the left; NOBODY without a match."""
    found = pairs.to(torch.uint8).argmax(dim=-1)
    return torch.where(pairs.any(dim=-1), id.take_along_dim(found, dim=-1), NOBODY)
