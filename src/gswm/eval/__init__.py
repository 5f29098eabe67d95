"""Measuring: what a model infers and imagines against what is true. No model is imported here."""
