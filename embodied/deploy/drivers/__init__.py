"""What the runtime can drive."""
