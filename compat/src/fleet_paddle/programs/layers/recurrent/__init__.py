"""Recurrent layers: cells, those over whole sequences, and those whose step a script writes itself."""
