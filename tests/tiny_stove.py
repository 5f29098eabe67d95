"""Small STOVEs for the tests."""

from dataclasses import replace

import torch

from gswm.core.schedule import Anneal
from gswm.models.stove.config import StoveConfig, StoveSchedule
from gswm.models.stove.dynamics import DynamicsConfig
from gswm.models.stove.spn import SPNConfig
from gswm.models.stove.stove import Stove
from gswm.models.stove.supair import EncoderConfig, ImagesConfig

SIZE = 16
SPN = SPNConfig(depth=1, repetitions=2, leaves=2, sums=2, variance=(0.1, 0.3))
SMALL = StoveConfig(
    image_size=SIZE,
    encoder=EncoderConfig(hidden=7, features=5),
    images=ImagesConfig(patch=4, object=replace(SPN, depth=2), background=SPN),
    dynamics=DynamicsConfig(width=12),
    schedule=StoveSchedule(lengths=((0, 4),), reward_weight=Anneal(0.0, 10.0, 0, 10)),
)
ACTING = replace(SMALL, dynamics=DynamicsConfig(width=12, hue=True, actions=5, rewards=True))
VARIANTS = {
    "usual": SMALL,
    "color": replace(SMALL, color=True, match_hue=True),
    "one ball": replace(SMALL, num_objects=1),
    "many": replace(SMALL, num_objects=7),
}


def build(cfg: StoveConfig = SMALL, seed: int = 0) -> Stove:
    """A model with weights that are large enough to matter."""
    torch.manual_seed(seed)
    model = Stove(cfg)
    with torch.no_grad():
        for name, param in model.named_parameters():
            if "bias" not in name:
                param.mul_(3)
    return model
