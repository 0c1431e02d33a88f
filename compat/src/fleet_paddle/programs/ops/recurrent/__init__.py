"""Recurrent networks: over ragged rows, over whole sequences, and one step of them."""
