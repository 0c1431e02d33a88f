"""Operators that compute with numbers."""
