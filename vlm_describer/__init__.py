"""Camera frames to text and facts."""
