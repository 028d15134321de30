"""Text that arrives: taggers that speak before it ends, and redaction that holds over its chunks."""
