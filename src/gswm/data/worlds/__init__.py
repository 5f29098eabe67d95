"""Worlds: exact, batched simulators, the paper's and those of other packages.

In reading order: `base` (what a world states); `physics`, `randomstate` and `sprites` with `balls`;
`single_ball`; `maze` with `maze_drawing`; the package `obj3d`; and `registry` (worlds by name).
`arrays` and `threads` make drawing fast on a CPU.
"""
