"""The models that the paper compares with, each readable beside its own paper."""
