"""Boustro inside other libraries; each file is one of them, imported by name and only when it is wanted."""
