"""Operators that make, shape, join and index tensors."""
