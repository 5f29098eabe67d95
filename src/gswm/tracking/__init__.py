"""Track the objects of a whole video, in its own pixels and seconds.

In reading order: `following` (a film of any length, some frames at a time) and `track` (the public
function, and its result).
"""
