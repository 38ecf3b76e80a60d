"""Pictures and films of what happened."""
