"""Track the objects of a whole video, in its own pixels and seconds.

In reading order: `backgrounds` (the scene without its objects), `windows` (several frames of the
model for small objects), `visible` (boxes in which nothing can be seen), `linking` (identities),
`stitching` (one track from those in all windows), `doubles` (second boxes of one object),
`following` (a film of any length, some frames at a time), `camera` (a warning of a camera that
moves), `misfit` (a warning of a model that does not fit) and `track` (the public function, and its
result).
"""
