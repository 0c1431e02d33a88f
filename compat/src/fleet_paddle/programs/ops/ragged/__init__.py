"""Operators over the rows of a ragged batch, and arithmetic on their offsets."""
