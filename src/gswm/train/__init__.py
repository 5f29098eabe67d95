"""Training: the step, the loop, and resumable runs, for any model."""
