"""The version, which files and answers name."""

__version__ = "0.1.0"
