"""A forward and a backward LM that fill a gap together, from its two ends. No training."""
