"""Variables in expressions of Python: signs, methods and subscripts, each of which adds operators."""
