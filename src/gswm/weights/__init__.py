"""Trained models in files."""
