"""Measure a video of a fixed camera: the size, number and speed of its objects.

In reading order: `reels` (videos with random access), `footage` (downsampled frames of them),
`moving` (differences from the background, linked over time), `steadiness` (detects camera motion),
`facts` (measurements in pixels and seconds), `verdicts` (problems of a video), `measuring` (the
whole measurement), `teaching` (boxes of moving objects, for supervision).
"""
