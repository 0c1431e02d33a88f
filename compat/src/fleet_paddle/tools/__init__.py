"""Small things beside training: versions, plots, text of older Pythons, files at hand, what is refused."""
