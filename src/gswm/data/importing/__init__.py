"""Your own videos, as episodes.

In reading order: `sources` (which videos there are), `damage` (whether a video is whole), `videos`
(one video into clips), `film` (one video that is read in parts, as often as needed), `tensors`
(frames as a batch), `reading` (one video as a tensor), `pipeline` (many videos into one file).
"""
