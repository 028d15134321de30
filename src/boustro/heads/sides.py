"""How many side features a labelling gives each word for a kind of head: the last columns of the head's input."""

PAIR = 4
"""In the other text; not in it; not in it, with a capital or a digit; marked (`tasks.labellings.pairs`)."""
SENSE = 2
"""Where the candidates of a word begin and end among the labels; 0 and 0 for a word without candidates."""
WEIGHT = 1
"""The weight of a word."""
