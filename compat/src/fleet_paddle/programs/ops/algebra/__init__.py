"""Matrices and vectors: products, inverses, singular values, right angles."""
