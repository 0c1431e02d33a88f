"""The passes: each file has one pure function from a program to a new one; what it is given stays as it is."""
