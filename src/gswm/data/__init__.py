"""Data: the paper's worlds, files, your own videos, and training batches.

In reading order: `episode` (the record of an episode), `labels` (its true boxes), `splits`,
`placement` (the position of an episode's frames in your own video), `background` (the scene of a
fixed camera without objects), `standing` (removes objects that stand still from it), `mot` (boxes
of a video, in MOTChallenge text) and `example` (a short video that ships); `worlds` (simulators
that generate episodes); `storage` (HDF5 files that hold them); `importing` (your own videos into
such files); `looking` (measurements of your videos); `batches` (batches for training). Each imports
only those before it.
"""
