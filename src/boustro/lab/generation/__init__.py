"""Writing text: a model folder in, text and scores out."""
