"""The parts of a data set, by name."""

from typing import Literal

SplitName = Literal["train", "val", "test"]
