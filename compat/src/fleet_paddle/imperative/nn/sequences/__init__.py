"""Layers over sequences: recurrent networks and their cells, attention, Transformers."""
