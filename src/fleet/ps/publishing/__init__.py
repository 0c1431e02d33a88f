"""A server publishes what changes in it, to whoever serves: the format and the places are those of `fleet.stream`.

Ask for `publishing.Publishing`, which a service has; `changes` reads what has changed, `bases` writes what a follower
begins with, one part by each server.
"""
