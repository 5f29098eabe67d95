"""The paper's worlds as exact, batched simulators."""
