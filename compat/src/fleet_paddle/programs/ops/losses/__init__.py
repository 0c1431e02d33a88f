"""Losses of classes, tags, alignments and pairs, and counts of how well they were met."""
