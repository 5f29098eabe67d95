"""Muon: momentum whose matrices are made orthogonal (Jordan et al., 2024).

Adam scales each weight's step by that weight's own gradients. Muon scales a matrix as a whole: it
replaces the singular values of the momentum by values close to 1, so that directions with small
gradients learn as fast as those with large ones. A few Newton-Schulz iterations approximate this
without a singular value decomposition:

    X ← M / |M|        X ← a X + (b A + c A²) X,  A = X Xᵀ

Unlike `torch.optim.Muon`, this one takes convolutions, reads its learning rate from the device, so
that a CUDA graph can capture it, and processes matrices of similar shapes together.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.nn import Parameter

COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""a, b and c: they raise small singular values fast, and leave large ones between 0.7 and 1.2."""
ITERATIONS = 5
SMALLEST_SIDE = 16
"""Matrices with fewer rows or columns, such as those of single outputs, are left to Adam."""
EPS = 1e-7


def is_matrix(param: Parameter) -> bool:
    """Whether Muon trains this parameter; a convolution is a matrix with a row per output."""
    return param.dim() >= 2 and min(len(param), param[0].numel()) >= SMALLEST_SIDE


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalized; a step changes each singular value by about `lr`.

    Matrices with more rows than columns take larger steps, by the root of the ratio.

    Args:
        params: the matrices.
        lr: the learning rate, a tensor on their device.
        momentum: the decay of the momentum.
    """

    def __init__(self, params: Iterable[Parameter], lr: Tensor, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update all matrices that have a gradient."""
        for group in self.param_groups:
            lr, decay = group["lr"], group["momentum"]
            params = [p for p in group["params"] if p.grad is not None]
            ahead = [self.accumulate(p, decay).flatten(1) for p in params]
            for param, found in zip(params, orthogonalized(ahead), strict=True):
                rows, columns = found.shape
                param.sub_((lr * max(1, rows / columns) ** 0.5 * found).reshape(param.shape))

    def accumulate(self, param: Parameter, decay: float) -> Tensor:
        """Add the gradient to the momentum; return the momentum one step ahead (Nesterov)."""
        assert param.grad is not None
        state = self.state[param]
        if not state:
            state["momentum"] = torch.zeros_like(param)
        momentum = state["momentum"].lerp_(param.grad, 1 - decay)
        return param.grad.lerp(momentum, decay)


def orthogonalized(
    matrices: list[Float[Tensor, "_ _"]],
) -> list[Float[Tensor, "_ _"]]:
    """Orthogonalize each matrix, those of similar shapes together.

    Matrices are turned to have no more rows than columns, and padded by zeros to powers of two,
    which adds only zeros to the result.
    """
    alike = defaultdict[tuple[int, int], list[int]](list)
    for i, matrix in enumerate(matrices):
        low, high = sorted(matrix.shape)
        alike[power_of_two(low), power_of_two(high)].append(i)
    results = list(matrices)
    for (rows, columns), members in alike.items():
        wide = [turned(matrices[i]) for i in members]
        padded = [F.pad(m, (0, columns - m.shape[1], 0, rows - m.shape[0])) for m in wide]
        for i, m, found in zip(members, wide, orthogonal(torch.stack(padded)), strict=True):
            found = found[: m.shape[0], : m.shape[1]]
            results[i] = found if m.shape == matrices[i].shape else found.mT
    return results


def orthogonal(x: Float[Tensor, "batch row column"]) -> Float[Tensor, "batch row column"]:
    """U Vᵀ of the singular value decomposition U S Vᵀ, approximately; rows ≤ columns."""
    a, b, c = COEFFICIENTS
    x = x / (x.norm(dim=(1, 2), keepdim=True) + EPS)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def turned(matrix: Float[Tensor, "row column"]) -> Float[Tensor, "low high"]:
    """Transpose a matrix with more rows than columns."""
    return matrix.mT if matrix.shape[0] > matrix.shape[1] else matrix


def power_of_two(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()
