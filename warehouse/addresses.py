"""Client addresses as rate limits count them: an IPv6 /64 is one client."""

from __future__ import annotations

import ipaddress


def rate_limit_key(host: str) -> str:
    """The address itself, or the /64 network of an IPv6 address: one client can use any address in its /64."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
