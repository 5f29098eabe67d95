"""`gswm data ...`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Make:
    """Settings of `gswm data make`."""

    def run(self) -> None:
        """Write the data set."""
        raise NotImplementedError
