"""Worlds: exact, batched simulators, the paper's and those of other packages.

In reading order: `base` (what a world states), `physics` and `sprites` with `balls`, `single_ball`,
`maze_drawing` with `maze`, the package `obj3d`, and `registry` (worlds by name).
"""
