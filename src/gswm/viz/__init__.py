"""Pictures and animations of videos and their objects. Imports no model."""
