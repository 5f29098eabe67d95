"""Training: the step, the loop, and runs that can be resumed. Nothing here knows a model."""
