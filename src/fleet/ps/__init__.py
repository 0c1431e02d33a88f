"""The parameter server: tables, placement, server, client and the modes of communication between them."""
