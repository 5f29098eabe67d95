"""The fused object-state RNNs against the modules, in Triton's interpreter where there is no GPU."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before a kernel is defined

import pytest
from tiny import generator
from torch import Tensor

from gswm.kernels.os_rnn import forward, os_rnn
from gswm.kernels.os_rnn_weights import OSRNNWeights
from gswm.model.propagation import ObjectStateRNN
from gswm.objects import Attributes, LSTMState, Objects, Sizes

SIZES = Sizes(what=5, state=9, hidden=32, encoding=16)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def rnns(num_ctx: int, sizes: Sizes = SIZES) -> list[ObjectStateRNN]:
    torch.manual_seed(0)
    return [ObjectStateRNN(sizes, num_ctx).to(DEVICE) for _ in range(2)]


def inputs(slots: int, num_ctx: int, sizes: Sizes = SIZES, seed: int = 0) -> list[Tensor]:
    """own, e_ctx, pres, h and c of two videos; some objects are absent, some half there."""
    g = generator(seed)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    own = randn(2, slots, sizes.o + sizes.state)
    pres = torch.rand(2, slots, 1, generator=g)
    pres[:, ::3] = 1
    pres[1, 1::2] = 0
    own[..., :1] = pres
    states = [randn(2, 2, slots, sizes.hidden) for _ in range(2)]
    tensors = [own, randn(2, slots, num_ctx), pres, *states]
    return [tensor.to(DEVICE).requires_grad_() for tensor in tensors]


def plain(sides: list[ObjectStateRNN], tensors: list[Tensor], sizes: Sizes = SIZES):
    """What the modules give."""
    own, e_ctx, pres, h, c = tensors
    o, z_state = own.split([sizes.o, sizes.state], dim=-1)
    nothing = torch.zeros(len(own), dtype=torch.int64, device=own.device)
    out = []
    for rnn, h_s, c_s in zip(sides, h, c, strict=True):
        state = LSTMState(h_s, c_s)
        ids = nothing[:, None].expand(own.shape[:2])
        attributes = Attributes.split(o)
        prev = Objects(attributes, z_state, state, state, ids, nothing)
        own_pres = rnn.interaction.forward
        u = torch.cat([own, h_s], dim=-1)
        e_rel = own_pres(u, pres)
        x = rnn.mlp_os(torch.cat([own, e_ctx, e_rel], dim=-1))
        hc = rnn.rnn_os(x.flatten(0, 1), (h_s.flatten(0, 1), c_s.flatten(0, 1)))
        out.append([v.unflatten(0, x.shape[:2]) for v in hc])
    return [torch.stack(v) for v in zip(*out, strict=True)]
