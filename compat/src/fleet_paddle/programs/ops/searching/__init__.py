"""Searches: beams over ragged rows and their whole ways, trees over items."""
