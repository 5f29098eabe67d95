"""Load trained models for fast inference and rollouts."""

from pathlib import Path

import torch

from gswm.fast.replay import replay
from gswm.models.base import ModelConfig, WorldModel
from gswm.weights import files


def load(name: str | Path, device: str | torch.device = "cpu") -> WorldModel[ModelConfig]:
    """Load a trained model.

    Args:
        name: a weights file, the folder of a run, a fit or `gswm export --hub`, the name of a
            model (`gswm weights` lists them), or hf://owner/name for a repository of the Hugging
            Face hub. A model that is not installed is downloaded; see docs/weights.md.
        device: cpu, cuda, or auto: a GPU if there is one.
    """
    return replay(files.load(name, device))
