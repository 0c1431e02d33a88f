"""Functions of values and of their places: random ones, orders, pairs, parts, sizes that are variables."""
