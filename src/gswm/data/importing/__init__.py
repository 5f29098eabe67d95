"""Your own videos, as episodes.

In reading order: `sources` (finds videos), `damage` (detects damaged ones), `frames` (decoded
frames and their times), `videos` (one video into clips), `film` (one video, read in parts and
repeatedly), `tensors` (frames as a batch), `reading` (one video as a tensor), `pipeline` (many
videos into one file).
"""
