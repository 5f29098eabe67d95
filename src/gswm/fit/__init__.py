"""Fit a model to one video: measure it, choose settings, train, and show the result."""
