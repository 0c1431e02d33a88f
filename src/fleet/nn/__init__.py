"""Torch modules and functions for models whose rows live in tables."""

__all__: list[str] = []
