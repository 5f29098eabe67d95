"""Doubtful objects, which are followed but not reported until something confirms them.

Discovery judges each frame by itself. It may give an object of low contrast a probability of 0.6 in
hundreds of frames, and a blot in the background too. Only the object moves.
"""

import numpy as np
from jaxtyping import Bool, Float, Integer

DOUBTFUL = 0.75
"""Largest presence of a doubtful object."""
SURE = 0.95
"""Smallest presence of a certain object when it is discovered."""
MOVED = 1.0
"""Distance in its own sizes by which a doubtful object must move."""


def confirmed(
    id: Integer[np.ndarray, " row"],
    presence: Float[np.ndarray, " row"],
    corners: Float[np.ndarray, "row 4"],
) -> Bool[np.ndarray, " row"]:
    """Whether each row is about an object that was certain in any row, or has moved.

    An object has moved if two opposite sides of its box have, by `MOVED` times the mean of its
    longer side. A blot at the border of the picture only grows and shrinks.

    Args:
        id: The object of each row.
        presence: That of the object in this row.
        corners: Left, top, right and bottom of its box, in units in which it is not distorted.
    """
    if not len(id):
        return np.zeros(0, dtype=bool)
    order = np.argsort(id, kind="stable")
    _, first, number, rows = np.unique(
        id[order], return_index=True, return_inverse=True, return_counts=True
    )
    sides = corners[order]
    certain = np.maximum.reduceat(presence[order], first) > DOUBTFUL
    longer = (sides[:, 2:] - sides[:, :2]).max(axis=1)
    size = np.add.reduceat(longer, first) / rows
    path = np.maximum.reduceat(sides, first) - np.minimum.reduceat(sides, first)
    both = np.minimum(path[:, :2], path[:, 2:]).max(axis=1)
    found = np.empty(len(id), dtype=bool)
    found[order] = (certain | (both >= MOVED * size))[number]
    return found
