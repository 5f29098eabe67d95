"""The words that everything else is written in: errors, files, settings, records, networks."""
