"""What is decided before a program is cut: who holds what, and by which rule it is updated."""
