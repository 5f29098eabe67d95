"""The models: G-SWM and those that the paper compares it with."""
