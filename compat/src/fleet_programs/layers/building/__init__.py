"""What layers are made of."""
