"""From a video to a trained model: measure it, choose settings, train, and show the result.

In reading order: `decisions` (settings that follow from what was measured of a video), `starting`
(trained weights to begin with), `reconciling` (labels of what moves, and what these weights see),
`episodes` (the video, split by time), `recipe` (a schedule as long as there is time), `pace` (how
long a step takes), `watching` (whether objects are lost), `attempts` (all attempts to train),
`showing` (tracks, futures and a page) and `fit` (all of it).
"""
