"""Worlds, which are batched simulators: the paper's, realistic clips, and those of other packages.

In reading order: `base` (the base class); `physics`, `randomstate` and `sprites` with `balls`;
`single_ball`; `maze` with `maze_drawing`; the packages `obj3d` and `clips`; `digits`
with `glyphs`; and `registry` (worlds by name). `arrays` and `threads` make drawing fast on a CPU.
"""
