"""Clips: random textured objects in front of random still backgrounds, as from a fixed camera.

In reading order: `settings` (all ranges), `dice` (random numbers), `themes` (kinds of clips),
`camera` (projection of the ground), `looks` and `sprites` (appearance of objects), `motion`,
`scenery` (backgrounds), `painting` (objects over backgrounds), `film` (light, noise and
compression), `world`.
"""
