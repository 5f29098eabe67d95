"""Pictures of videos and of objects in them: arrays in, pictures and files out."""
