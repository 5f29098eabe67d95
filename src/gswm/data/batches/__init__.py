"""Training batches: windows of episodes, from device memory or a file.

In reading order: `batch` (the record), `windows` (the frames of each step), `resident` (episodes on
the device), `kept` (episodes cached on disk between runs), `streaming` (episodes in a file),
`loader` (chooses between them), `augment` (data augmentation).
"""
