"""Data: the paper's worlds, files, your own videos, and training batches.

In reading order: `episode` (what an episode is), `labels` (its true boxes), `splits`, `placement`
(where in your own video an episode's frames are), `background` (what a fixed camera sees without
objects), `standing` (which objects to take out of it), `mot` (boxes of a video, in MOTChallenge
text) and `example` (a short video that ships); `worlds` (simulators that make episodes); `storage`
(HDF5 files that hold them); `importing` (your own videos into such files); `looking` (what moves in
them); `batches` (what a training step sees of them). Each imports only those before it.
"""
