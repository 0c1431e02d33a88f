"""Where files lie: paths, folders, URLs, packed or not."""
