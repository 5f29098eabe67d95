"""Random sum-product networks (Peharz et al. 2019): densities that can be marginalized.

The variables are split at random into 2^depth regions, `repetitions` times over. A region has
`leaves` Gaussians, each a product over its variables, and regions are joined in pairs
up to the root:

    leaf_g = Σ_d s_d log N(x_d; mean_dg, variance_dg)      s_d: the weight of variable d
    sum_s = log Σ_ab w_abs exp(f_a + g_b)                  Σ_ab w_abs = 1, of two regions f and g
    root = log Σ_rab w_rab exp(f_ra + g_rb)                over all repetitions r

With s_d = 0 a variable is integrated out. s is real, so a box that hides pixels has a gradient.

A variable is in one region of each repetition, so leaves are a product of [s x², s x, s] with a
matrix of coefficients that are 0 outside the region, and no gather is needed. The coefficients are
large and cancel, so this product is in double precision; a GPU's TF32 would be too inexact.
"""

import math
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor, nn

Nodes = Float[Tensor, "batch repetition region node"]


@dataclass(frozen=True)
class SPNConfig:
    """Settings of a sum-product network."""

    depth: int
    repetitions: int
    leaves: int
    """Number of Gaussians per region of variables."""
    sums: int
    """Number of sums per region that joins two others."""
    variance: tuple[float, float]
    """Bounds of a Gaussian's variance."""


class RandomSPN(nn.Module):
    """A density of vectors."""

    def __init__(self, cfg: SPNConfig, num_variables: int) -> None:
        super().__init__()
        self.cfg, self.num_regions, times = cfg, 2**cfg.depth, cfg.repetitions
        order = torch.stack([torch.randperm(num_variables) for _ in range(times)], dim=-1)
        self.region: Tensor
        self.register_buffer("region", order * self.num_regions // num_variables)
        self.mean = truncated_normal(num_variables, times, cfg.leaves)
        self.rho = truncated_normal(num_variables, times, cfg.leaves)
        self.inner, width = nn.ParameterList(), cfg.leaves
        for level in range(1, cfg.depth):
            pairs = self.num_regions >> level
            self.inner.append(truncated_normal(times, pairs, width, width, cfg.sums))
            width = cfg.sums
        self.root = truncated_normal(times, width, width)

    def forward(
        self, x: Float[Tensor, "batch variable"], counts: Float[Tensor, "batch variable"]
    ) -> Float[Tensor, " batch"]:
        """The log-density of the variables of `x` that count."""
        nodes = self.leaves(x, counts)
        for weight in self.inner:
            nodes = join(nodes, weight)
        f, g = nodes.unbind(dim=2)
        weight = self.root.flatten().log_softmax(dim=0).view_as(self.root)
        return (f[..., :, None] + g[..., None, :] + weight).flatten(1).logsumexp(dim=1)

    def leaves(
        self, x: Float[Tensor, "batch variable"], counts: Float[Tensor, "batch variable"]
    ) -> Nodes:
        """The log-density of every Gaussian of every region."""
        low, high = self.cfg.variance
        variance = low + (high - low) * self.rho.sigmoid()
        constant = -0.5 * (self.mean.square() / variance + (2 * math.pi * variance).log())
        coefficients = torch.stack([-0.5 / variance, self.mean / variance, constant])
        regions = torch.arange(self.num_regions, device=x.device)
        inside = (self.region[..., None] == regions).double()
        matrix = einsum(coefficients.double(), inside, "c d r g, d r l -> c d r l g")
        powers = torch.stack([counts * x.square(), counts * x, counts], dim=1).double()
        return einsum(powers, matrix, "n c d, c d r l g -> n r l g").float()

    def most_probable(self) -> Float[Tensor, " variable"]:
        """The means of the leaves to which the largest weights lead."""
        best, width = self.root.flatten().argmax(), self.root.shape[-1]
        repetition = best // width**2
        chosen = torch.stack([best // width % width, best % width])
        for weight in reversed(self.inner):
            pairs = weight[repetition].unbind(dim=0)
            of_chosen = [pair[..., s] for pair, s in zip(pairs, chosen, strict=True)]
            best, width = torch.stack(of_chosen).flatten(1).argmax(dim=1), weight.shape[2]
            chosen = torch.stack([best // width, best % width], dim=-1).flatten()
        leaf = chosen[self.region[:, repetition]]
        return self.mean[:, repetition].gather(1, leaf[:, None])[:, 0]


def join(
    nodes: Nodes, weight: Float[Tensor, "repetition pair node node sum"]
) -> Float[Tensor, "batch repetition pair sum"]:
    """Sums over the products of neighboring regions, in log space."""
    f, g = nodes.unflatten(2, (-1, 2)).unbind(dim=3)
    most_f, most_g = (side.detach().amax(dim=-1, keepdim=True) for side in (f, g))
    share = weight.flatten(2, 3).softmax(dim=2).view_as(weight)
    pairs = "n r p a, n r p b, r p a b s -> n r p s"
    return einsum((f - most_f).exp(), (g - most_g).exp(), share, pairs).log() + most_f + most_g


def truncated_normal(*shape: int) -> nn.Parameter:
    """A parameter with truncated normal initial values."""
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(shape), std=0.1, a=-0.2, b=0.2))
