"""A trained task's knowledge in a smaller one: its distributions over text that nobody labelled."""
