"""3D Interactions: solids on a plane, and a sphere that is shot into them (§5, App. C).

In reading order: `settings` (all numbers), `simulation` (MuJoCo), `scenes` (what happened, in a
small file), `camera`, `rays`, `shading`, `renderer` (the picture of it, in torch), `world`, and
`blender` (the same picture by Cycles).

The plane is z = 0, with x to the right of the picture, y away from the camera and z up. Lengths are
CLEVR's: a large object has a radius of 0.7. Times are frames.
"""
