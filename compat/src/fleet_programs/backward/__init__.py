"""The backward part of a program."""
