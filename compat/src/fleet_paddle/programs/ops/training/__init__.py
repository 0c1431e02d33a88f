"""What a loop of training adds to its program: updates, averages of parameters, conditions, functions of Python."""
