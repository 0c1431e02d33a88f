"""Streams into training: `opening` finds the stream behind a URL, one file for each kind of broker, `lines` parses.

The contract is `fleet.data.streams.contract`; `fleet.data.files` asks for all of it by entry points.
"""
