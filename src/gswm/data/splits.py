"""Names of the splits of a dataset."""

from typing import Literal

SplitName = Literal["train", "val", "test"]
