"""Scores: predicted boxes and pixels against the ground truth."""
