"""Shared foundations: errors, files, settings, records, distributions, networks."""
