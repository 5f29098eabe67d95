"""Object-centric world models for video."""
