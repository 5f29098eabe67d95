"""The subcommands of `gswm`: each a frozen dataclass of its settings, with a `run`."""
