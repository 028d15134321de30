"""One vector for a text, from a frozen encoder: words pooled with statistics of unlabelled texts, or a trained head."""
