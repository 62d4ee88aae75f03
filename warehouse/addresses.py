"""How a client's address is counted, wherever one client may have only its share."""

from __future__ import annotations

import ipaddress


def counted_as(host: str) -> str:
    """Itself, or the network of 64 bits that an IPv6 address is in: everybody has as many addresses of it as they
    like."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
