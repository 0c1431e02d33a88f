"""Streams of lines that a broker keeps: `contract` is what is asked of one, and what we make of its records.

What knows NATS, Kafka and lines of text lies in `fleet_tools`. Who reads what is decided in `fleet.data.reading`.
"""
