"""What torch really does, counted: the proof of the closed forms."""
