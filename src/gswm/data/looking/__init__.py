"""Measure a video of a fixed camera: how large, how many and how fast its objects are.

In reading order: `reels` (videos that can be read at any frame), `footage` (some frames of them,
reduced), `moving` (what differs from the background, linked over time), `steadiness` (whether the
camera stands still), `facts` (what was measured, in pixels and seconds), `verdicts` (what will
not work), `measuring` (all of it), `teaching` (boxes of what moves, for a model to learn from).
"""
