"""Worlds: batched simulators: the paper's, clips like those of real cameras, and other packages'.

In reading order: `base` (what a world states); `physics`, `randomstate` and `sprites` with `balls`;
`single_ball`; `maze` with `maze_drawing`; the packages `obj3d` and `clips`; `digits`
with `glyphs`; and `registry` (worlds by name). `arrays` and `threads` make drawing fast on a CPU.
"""
