"""Traces: what every process of a job did in some steps, as spans on one clock (`fleetrun --trace`)."""
