"""The report: what was measured, beside what the paper says, as tables, figures and one page."""
