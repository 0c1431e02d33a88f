"""Rows of what networks are built of: windows, norms, products with weights, losses."""
