"""Click models: shows and clicks beside embeddings, normalised counts, hashed ids."""
