"""What every layer is made of: `Layer`, its parameters and their first values, what it has in programs."""
