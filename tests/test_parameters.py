"""The names and numbers of all parameters: the paper's networks, and the release's counts.

Where a count differs from the release's, the difference is written out; docs/departures.md has
the same table.
"""

import pytest
from torch import nn

from gswm.models.registry import build

Keys = set[str]


def both(*layers: int) -> Keys:
    return {f".{i}.{part}" for i in layers for part in ("weight", "bias")}


MLP = both(0, 2, 4)
LSTM = {f".{part}_{gate}" for part in ("weight", "bias") for gate in ("ih", "hh")}
GLIMPSE = both(0, 2, 3, 5, 6, 8, 10, 12, 14)
TRUNK = (
    {".0.weight"}
    | both(1, 9)
    | {f".{i}.conv_{n}.weight" for i in range(3, 9) for n in (1, 2)}
    | {f".{i}.norm_{n}.{part}" for i in range(3, 9) for n in (1, 2) for part in ("weight", "bias")}
    | {f".{i}.short.0.weight" for i in (5, 7)}
    | {f".{i}.short.1.{part}" for i in (5, 7) for part in ("weight", "bias")}
)
NETWORKS: dict[str, tuple[str, Keys]] = {
    "RNN_ctx_prior": ("context.rnn_prior", LSTM),
    "MLP_ctx_prior": ("context.mlp_prior", MLP),
    "Deconv_ctx": ("context.deconv", both(0, 2, 5, 6, 9, 10, 13, 14)),
    "RNN_ctx_post": ("context.rnn_post", LSTM),
    "MLP_ctx_post": ("context.mlp_post", MLP),
    "Conv_ctx": ("context.conv", both(0, 2, 3, 5, 6, 8, 9, 11, 13)),
    "h_0 of the context": ("context.h_0", {""}),
    "Conv_disc": ("discovery.conv_disc", TRUNK),
    "MLP_cond": ("discovery.mlp_cond", MLP),
    "MLP_disc": ("discovery.mlp_disc", MLP),
    "RNN_os_prior": ("propagation.rnn_prior.rnn_os", LSTM),
    "MLP_os_prior": ("propagation.rnn_prior.mlp_os", both(0)),
    "MLP_self_prior": ("propagation.rnn_prior.interaction.mlp_self", MLP),
    "MLP_rel_prior": ("propagation.rnn_prior.interaction.mlp_rel", MLP),
    "MLP_weight_prior": ("propagation.rnn_prior.interaction.mlp_weight", MLP),
    "h_0 of the prior": ("propagation.rnn_prior.h_0", {""}),
    "Conv_ctx_att": ("propagation.situation.conv_ctx_att", GLIMPSE),
    "MLP_state_prior": ("propagation.latent.mlp_state_prior", MLP),
    "MLP_att and MLP_gate": ("propagation.latent.mlp_att", MLP),
    "RNN_os_post": ("propagation.rnn_post.rnn_os", LSTM),
    "MLP_os_post": ("propagation.rnn_post.mlp_os", both(0)),
    "MLP_self_post": ("propagation.rnn_post.interaction.mlp_self", MLP),
    "MLP_rel_post": ("propagation.rnn_post.interaction.mlp_rel", MLP),
    "MLP_weight_post": ("propagation.rnn_post.interaction.mlp_weight", MLP),
    "h_0 of the posterior": ("propagation.rnn_post.h_0", {""}),
    "MLP_prop": ("propagation.mlp_prop", MLP),
    "Conv_prop": ("propagation.conv_prop", GLIMPSE),
    "MLP_state_post": ("propagation.latent.mlp_state_post", MLP),
    "Deconv_what": ("renderer.deconv_what", both(0, 2, 5, 6, 9, 10, 13, 14)),
}


def test_the_keys_of_the_weights_are_the_papers_networks() -> None:
    want = {prefix + key for prefix, keys in NETWORKS.values() for key in keys}
    assert set(build("obj3d").state_dict()) == want


def count(model: nn.Module, name: str) -> int:
    prefix = NETWORKS[name][0]
    return sum(p.numel() for key, p in model.named_parameters() if key.startswith(prefix))


# A convolution of 3 × 3 onto one pixel sees 4 of its 9 weights, one on a single pixel only 1.
ONTO_ONE_PIXEL = -(9 - 4) * 64 * 128
ON_ONE_PIXEL = -(9 - 1) * 128 * 256
# Two normalizations of 128 channels each, for which the paper's MLP_disc has no place.
NORMS_OF_DISC = -2 * (128 + 128)
RELEASE_AND_DIFFERENCE = {
    "RNN_ctx_prior": (132_096, 0),
    "MLP_ctx_prior": (66_048, 0),
    "Deconv_ctx": (264_192 + 389_484, 0),
    "RNN_ctx_post": (132_096, 0),
    "MLP_ctx_post": (82_432, 0),
    "Conv_ctx": (1_560_576 + 1_048_704, 0),
    "h_0 of the context": (512, 0),
    "Conv_disc": (3_087_232, 0),  # group norm has as many parameters as batch norm
    "MLP_cond": (58_496, 0),
    # The release has two nets, and leaves the z_state outputs of the first unused.
    "MLP_disc": (100_875 + 82_944, NORMS_OF_DISC - 82_944),
    "RNN_os_prior": (132_096, 0),
    "MLP_os_prior": (58_240, 0),
    "MLP_self_prior": (74_880, 0),
    "MLP_rel_prior": (116_608, 0),
    "MLP_weight_prior": (100_225, 0),
    "h_0 of the prior": (256, 0),
    "Conv_ctx_att": (114_432, ONTO_ONE_PIXEL),
    "MLP_state_prior": (66_048, 0),
    "MLP_att and MLP_gate": (59_856, 0),
    "RNN_os_post": (132_096, 0),
    "MLP_os_post": (58_240, 0),
    "MLP_self_post": (74_880, 0),
    "MLP_rel_post": (116_608, 0),
    "MLP_weight_post": (100_225, 0),
    "h_0 of the posterior": (256, 0),
    "MLP_prop": (33_282, 0),
    "Conv_prop": (114_432, ONTO_ONE_PIXEL),
    "MLP_state_post": (82_432, 0),
    "Deconv_what": (398_384, ON_ONE_PIXEL),
}
UNUSED_BY_THE_RELEASE = 2 * 128
RELEASE_TOTAL = 8_839_419


def test_every_network_has_the_releases_parameters_but_for_what_is_said() -> None:
    model = build("obj3d")
    for name, (release, difference) in RELEASE_AND_DIFFERENCE.items():
        assert count(model, name) == release + difference, name
    assert (
        sum(release for release, _ in RELEASE_AND_DIFFERENCE.values()) + UNUSED_BY_THE_RELEASE
        == RELEASE_TOTAL
    )


def test_a_world_without_background_has_no_context_no_aoe_and_3_channels() -> None:
    model, full = build("two-layer"), build("obj3d")
    gone = [name for name in NETWORKS if "ctx" in name or "context" in name]
    narrower = {
        "Conv_disc": -3 * 64 * 7 * 7,  # x - 0 is x again
        "MLP_os_prior": -128 * 128,  # no e_ctx
        "MLP_os_post": -128 * 128,
    }
    for name in NETWORKS:
        want = 0 if name in gone else count(full, name) + narrower.get(name, 0)
        assert count(model, name) == want, name


@pytest.mark.parametrize(
    ("recipe", "release", "difference"),
    [
        (
            "maze",
            8_320_587,
            2 * ONTO_ONE_PIXEL + ON_ONE_PIXEL + NORMS_OF_DISC - 82_944 - UNUSED_BY_THE_RELEASE,
        ),
        (
            # The release's whole background enters through the encoder; ours too.
            "maze-no-aoe",
            8_566_347,
            ONTO_ONE_PIXEL + ON_ONE_PIXEL + NORMS_OF_DISC - 82_944 - UNUSED_BY_THE_RELEASE,
        ),
        (
            # The release keeps the unused encoder (360,192) and gives the RNNs 128 zeros.
            "maze-no-sa",
            8_566_347,
            ONTO_ONE_PIXEL
            + ON_ONE_PIXEL
            + NORMS_OF_DISC
            - 82_944
            - UNUSED_BY_THE_RELEASE
            - 360_192
            - 2 * 128 * 128,
        ),
        (
            # The release's prior has a presence that ours has not: nobody leaves by it.
            "maze-no-mu",
            7_895_393,
            2 * ONTO_ONE_PIXEL + ON_ONE_PIXEL + NORMS_OF_DISC - UNUSED_BY_THE_RELEASE - 129,
        ),
    ],
)
def test_a_recipes_total_is_the_releases_but_for_what_is_said(
    recipe: str, release: int, difference: int
) -> None:
    total = sum(p.numel() for p in build(recipe).parameters())
    assert total == release + difference
