"""The report: our results beside the paper's, as tables, figures and one HTML page."""
