"""3D Interactions: solids on a plane, and a sphere that is shot into them (§5, App. C).

In reading order: `settings` (all numbers); `simulation` (MuJoCo) and `scenes` (its results), in a
small `scene_file`; `camera`, `rays` and `shading` (one ray), `culling`, `stage`, `surfaces` and
`renderer` (many rays); `blender` (rendering by Cycles); `world`, and its `layout` in data files.

The plane is z = 0, with x to the right of the picture, y away from the camera and z up. Lengths are
CLEVR's: a large object has a radius of 0.7. Times are in frames.
"""
