"""Clips: random textured objects before random still backgrounds, as a fixed camera films them.

In reading order: `settings` (all ranges), `dice` (random numbers), `themes` (what kinds of clips
there are), `camera` (from the ground to the picture), `looks` and `sprites` (what objects look
like), `motion` (how they move), `scenery` (backgrounds), `painting` (objects over backgrounds),
`film` (light, noise and compression), `world`.
"""
