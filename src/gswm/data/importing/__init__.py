"""Your own videos, as episodes."""
