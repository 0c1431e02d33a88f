"""Figures of every process of a job: counted where things happen, written to a file once a second, read by fleetrun."""
