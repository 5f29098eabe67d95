"""Data: the paper's worlds, files, your own videos, and training batches.

In reading order: `episode` (what an episode is), `splits` and `background` (of a fixed camera);
`worlds` (simulators that make episodes); `storage` (HDF5 files that hold them); `importing` (your
own videos into such files); `looking` (what is in your own videos, measured); `batches` (what a
training step sees of them). Each imports only those before it.
"""
