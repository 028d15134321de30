"""Zero-shot multiple choice through lm-evaluation-harness, with its controls."""
