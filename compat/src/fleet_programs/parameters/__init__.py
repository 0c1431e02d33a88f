"""Parameters: their attributes, first values and regularizers."""
