"""Word sense disambiguation: the nearest centroid of a sense among those that a word can have (`task`)."""
