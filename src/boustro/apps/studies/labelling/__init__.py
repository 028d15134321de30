"""What an order of labelling is worth, measured with a simulated annotator."""
