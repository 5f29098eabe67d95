"""What everything else builds on: errors, files, settings, records, distributions, networks."""
