"""Sentence embeddings: one vector for a text, from statistics of texts or from a trained head (`task`)."""
