"""Training batches: which windows of which episodes each step sees, and where they are kept."""
