"""Evaluation of inference and rollouts against ground truth. Imports no model."""
