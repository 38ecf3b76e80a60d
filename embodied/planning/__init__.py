"""Plans as data: grammar, validation, grounding."""
