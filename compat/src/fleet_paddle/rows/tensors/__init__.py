"""Rows of functions of tensors: what makes, changes, orders and picks numbers."""
