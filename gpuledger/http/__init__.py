"""Limits for unauthenticated clients of a server: connections, time and size.

    limits          every number, in one place (docs/limits.md)
    server          accepts connections, counts them by address, closes waiting ones when there are too many
    connection      one connection: its request head, its idle time, and whether its client reads the response
    exchange        one request: its body, and the size of its response

Owns no route and knows no user. `gpuledger up`, `server` and `scheduler` serve through it.
"""
