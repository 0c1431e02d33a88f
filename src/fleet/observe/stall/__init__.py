"""What jobs of every kind need when somebody waits too long: one calls, all say where they are, one reports, all end."""
