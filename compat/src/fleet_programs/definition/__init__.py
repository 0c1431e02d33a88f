"""What an operator is: its attributes, shapes and types, and the registry of all of them."""
