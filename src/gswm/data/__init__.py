"""Data: the paper's worlds, files, your own videos, and training batches."""
