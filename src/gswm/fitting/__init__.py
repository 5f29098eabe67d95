"""From a video to a trained model: measure it, choose settings, train, and show the result.

In reading order: `decisions` (settings derived from measurements of a video), `config` (settings
that a user gives), `starting` (initial weights), `reconciling` (labels of moving objects, compared
with the detections of these weights), `episodes` (the video, split by time), `recipe` (a schedule
for the available time), `pace` (the time per step), `watching` (detection of lost objects),
`resuming` (interrupted fits), `attempts` (repeated training), `motion` (training of the prior
alone), `keeping` (the better of a fit and its initial weights), `showing` (tracks, futures and a
page) and `fit` (the whole procedure).
"""
