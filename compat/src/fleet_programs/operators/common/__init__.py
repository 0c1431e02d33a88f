"""What operators of several kinds have in common."""
