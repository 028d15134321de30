"""Classification by what an LM would write: templates with a gap, and a word for each label."""
