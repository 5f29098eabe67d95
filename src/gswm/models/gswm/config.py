"""Settings of G-SWM, and the checks that they fit together (Table 9)."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from gswm.core.errors import UserError
from gswm.core.networks import Trunk
from gswm.core.words import listed
from gswm.models.config import ModelConfig, check_positive, check_shares
from gswm.models.gswm.discovery import DiscoveryConfig
from gswm.models.gswm.propagation import PropagationConfig
from gswm.models.gswm.schedule import Schedule
from gswm.models.objects import Sizes

BackgroundKind = Literal["black", "static", "learned"]
GLIMPSES = (16, 32, 64)
"""Sizes of a glimpse in pixels."""


@dataclass(frozen=True)
class GSWMConfig(ModelConfig):
    """All settings of the model."""

    kind: ClassVar[str] = "gswm"

    num_objects: int = 10
    """K: slots for objects."""
    background: BackgroundKind = "black"
    """"learned" is the paper's context. "static" is for fixed cameras: the model is given a picture
    of the background with each video, and adapts it to the light of each frame.
    """
    augment: bool = False
    """Also train on mirrored, shifted and recolored videos. Needs a static background."""
    motion_threshold: float = 0.1
    """Difference from a static background that counts as motion."""
    aux_pres: bool = True
    """Whether the auxiliary loss of presence is used."""
    tight_boxes: bool = False
    """Shrink reported boxes to the drawn pixels, as with a static background without
    `boxes_by_label`. A box may contain more than its object, such as a shadow.
    """
    boxes_by_label: bool = False
    """Train labelled boxes by their labels alone, and not by the likelihood."""
    sizes: Sizes = field(default_factory=Sizes)
    propagation: PropagationConfig = field(default_factory=PropagationConfig)
    discovery: DiscoveryConfig = field(default_factory=DiscoveryConfig)
    schedule: Schedule = field(default_factory=Schedule)

    @property
    def has_background(self) -> bool:
        """See `ModelConfig`."""
        return self.background == "learned"

    @property
    def takes_background(self) -> bool:
        """See `ModelConfig`."""
        return self.background == "static"

    @property
    def takes_labels(self) -> bool:
        """See `ModelConfig`."""
        return not self.schedule.label_weight.is_zero

    @property
    def reports_extents(self) -> bool:
        """Whether reported boxes are shrunk to the drawn pixels; labelled ones fit already."""
        loose = self.background == "static" and not self.boxes_by_label
        return self.tight_boxes or loose

    @property
    def object_size(self) -> float:
        """The size of a typical object under the prior, as a fraction of the frame."""
        return 1 / (1 + math.exp(-self.schedule.hw_prior_mean.end))

    @classmethod
    def upgraded(cls, values: dict[str, Any]) -> dict[str, Any]:
        """See `ModelConfig`. In 0.1.0, a background was either learned or black."""
        if isinstance(said := values.get("background"), bool):
            values = values | {"background": "learned" if said else "black"}
        discovery = values.get("discovery")
        if isinstance(discovery, dict) and "pres_prior" in discovery:
            rest = {name: value for name, value in discovery.items() if name != "pres_prior"}
            prior = {"start": discovery["pres_prior"], "end": discovery["pres_prior"]}
            schedule = {"pres_prior": prior} | values.get("schedule", {})
            values = values | {"discovery": rest, "schedule": schedule}
        return values

    def resized_from(self, before: ModelConfig) -> "GSWMConfig":
        """See `ModelConfig`. Positions stay in pixels."""
        if not isinstance(before, GSWMConfig) or before.image_size == self.image_size:
            return self
        scale = self.propagation.position_scale
        if not scale == before.propagation.position_scale == before.image_size / 2:
            return self
        propagation = replace(self.propagation, position_scale=self.image_size / 2)
        return replace(self, propagation=propagation)

    def check(self) -> None:
        """Raise a UserError for settings that do not fit together."""
        super().check()
        self.schedule.likelihood_std.check_positive("--model.schedule.likelihood-std")
        self.schedule.pres_prior.check_probability("--model.schedule.pres-prior")
        if not self.schedule.motion_weight.is_zero and self.background != "static":
            raise UserError(
                "--model.schedule.motion-weight needs a static background: set --model.background "
                "static, or the weight to 0"
            )
        self.schedule.overshoot.check()
        if self.augment and self.background != "static":
            raise UserError("--model.augment needs --model.background static")
        size, grid = self.image_size, self.discovery.grid
        if size < 64 or size & (size - 1):
            raise UserError(f"the image size must be 64, 128 or a larger power of 2, not {size}")
        if grid < 1 or size % (Trunk.STRIDE * grid):
            finest = size // Trunk.STRIDE
            raise UserError(
                f"a grid of {grid} does not fit images of {size}: it must divide {finest}"
            )
        if self.discovery.width < 16 or self.discovery.width % 16:
            given = self.discovery.width
            raise UserError(f"--model.discovery.width is {given}: it must be a multiple of 16")
        if self.sizes.glimpse not in GLIMPSES:
            given, allowed = self.sizes.glimpse, listed(map(str, GLIMPSES))
            raise UserError(f"--model.sizes.glimpse is {given}: it must be {allowed} pixels")
        check_positive(self.discovery, "--model.discovery", "cond_sigma", "hw_std", "tau")
        check_positive(self.propagation, "--model.propagation", "position_scale", "tau")
        for limit in ("depth_limit", "what_limit"):
            if getattr(self.propagation, limit) is not None:
                check_positive(self.propagation, "--model.propagation", limit)
        if (doubt := self.discovery.doubt) is not None and doubt >= (self.discovery.certainty or 0):
            raise UserError(
                f"--model.discovery.doubt is {doubt:g}: it must be below "
                f"--model.discovery.certainty, which is {self.discovery.certainty}"
            )
        optional = ("certainty", "correction", "doubt")
        used = [name for name in optional if getattr(self.discovery, name) is not None]
        check_shares(self.discovery, "--model.discovery", "dropout", *used)
