"""What scripts have for programs beside tensors: layers, functions and optimizers over `fleet_programs`."""
