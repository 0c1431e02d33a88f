"""Operators of neural networks: layers, losses, metrics."""
