"""Training batches: which windows of which episodes each step sees, and where they are kept.

In reading order: `batch` (the record), `windows` (which frames a step sees), `resident` (episodes
on the device), `kept` (episodes on disk between runs), `streaming` (episodes in a file), `loader`
(chooses between them), `augment` (other videos from the same).
"""
