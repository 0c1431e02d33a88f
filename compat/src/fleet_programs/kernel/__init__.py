"""What the kernel of an operator works with when a program is run."""
