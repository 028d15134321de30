"""The relation between two marked places of a text."""
