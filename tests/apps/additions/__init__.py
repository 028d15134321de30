"""A task, a head and an encoder that the package does not have, each in one file; see `test_additions`."""
