"""e_ctx compared with §3.3.2: the background around each object."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from tiny import SIZES, attributes, video

from gswm.core.records import map_tensors
from gswm.models.gswm.situation import Situation, SituationKind


def situation(kind: SituationKind, size: float = 0.25) -> Situation:
    torch.manual_seed(0)
    return Situation(kind, size, SIZES, 64)


@torch.no_grad()
def test_attention_on_environment_follows_the_paper() -> None:
    """A crop of 16 × 16 around each object, as much larger than it as s_ctx says."""
    net, mu_bg, o = situation("attend"), video(), attributes()
    got = net(net.survey(mu_bg)[:, 1], o)
    at = [-1 + (2 * i + 1) / 16 for i in range(16)]
    for b in range(2):
        for k in range(3):
            (x, y), (h, w) = o.xy[b, k].tolist(), o.hw[b, k].tolist()
            grid = [[[x + (w + 0.25) * u, y + (h + 0.25) * v] for u in at] for v in at]
            g_ctx = F.grid_sample(mu_bg[b, 1][None], torch.tensor([grid]), align_corners=False)
            want = net.conv_ctx_att(g_ctx)[0]
            torch.testing.assert_close(got[b, k], want, atol=1e-4, rtol=1e-3)


@torch.no_grad()
def test_the_whole_background_is_the_same_for_every_object() -> None:
    net, mu_bg, o = situation("whole"), video(), attributes()
    got = net(net.survey(mu_bg)[:, 1], o)
    for k in range(3):
        torch.testing.assert_close(got[:, k], net.conv_ctx_att(mu_bg[:, 1]), atol=1e-5, rtol=1e-4)
    moved = replace(o, xy=-o.xy)
    assert torch.equal(net(net.survey(mu_bg)[:, 1], moved), got)


@torch.no_grad()
def test_without_situation_awareness_there_is_no_e_ctx() -> None:
    net, mu_bg = situation("off"), video()
    assert net(net.survey(mu_bg)[:, 0], attributes()).shape == (2, 3, 0)
    assert net.num_e == 0
    assert list(net.parameters()) == []


@torch.no_grad()
def test_only_what_is_near_an_object_is_seen_by_it() -> None:
    net, mu_bg = situation("attend"), video()
    o = replace(attributes(), xy=torch.full((2, 3, 2), -0.5), hw=torch.full((2, 3, 2), 0.2))
    far = mu_bg.clone()
    far[..., 40:, 40:] = 0
    near = mu_bg.clone()
    near[..., 8:24, 8:24] = 0
    want = net(mu_bg[:, 0], o)
    torch.testing.assert_close(net(far[:, 0], o), want)
    assert (net(near[:, 0], o) - want).abs().max() > 1e-3


@torch.no_grad()
def test_objects_have_no_order() -> None:
    net, mu_bg, o = situation("attend"), video(), attributes()
    order = [2, 0, 1]
    got = net(mu_bg[:, 0], map_tensors(lambda x: x[:, order], o))
    torch.testing.assert_close(got, net(mu_bg[:, 0], o)[:, order], atol=1e-5, rtol=1e-4)
