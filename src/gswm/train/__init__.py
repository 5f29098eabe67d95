"""Training: fast, and impossible to lose. Nothing here knows which model it trains."""
