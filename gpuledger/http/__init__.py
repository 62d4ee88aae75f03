"""Limits for unauthenticated clients of a server: connections, time and size.

    limits.py       every number, in one place (docs/limits.md)
    connection.py   one connection: its head, its idle time, and whether its client reads the answer
    server.py       who is let in when there are many: accepts, counts by address, makes room
    exchange.py     one request: its body, and the size of its answer

Owns no route and knows no user. `gpuledger up`, `server` and `scheduler` serve through it.
"""
