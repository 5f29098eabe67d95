"""Pictures of videos and of the objects in them, as arrays and as files. No model is imported."""
