"""Formats of files: what is in them, as records of a schema."""
