"""Batches without end: rows of files in, answers out, resumed after a kill, on one machine or many."""
