"""Norms as layers, and norms of weights."""
