"""Silver labels for running text: names of a gazetteer, and what an LLM listed."""
