"""Images: other sizes, windows and pieces, neighbouring channels."""
