"""Layers over ragged rows: convolution, alignment, tags, beam search."""
