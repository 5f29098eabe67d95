"""Benchmarks, which print figures and are not tests."""
