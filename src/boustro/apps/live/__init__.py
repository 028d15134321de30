"""Text that arrives in chunks: tagged as it comes (`stream`), and redacted before it goes on (`redactor`)."""
