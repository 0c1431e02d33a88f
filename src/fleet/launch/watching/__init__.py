"""A job that can be watched: what the launcher writes down, and who may read it how."""
