"""Certificates that sign themselves, so that a test need not trust anybody else."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


def self_signed(folder: Path, host: str, of: str = "", ended: bool = False) -> tuple[Path, Path]:
    """The paths of a certificate and of its key.   host: a name or an IPv4 address.   of: their name, if not the host;
    certificates for one host have names of their own."""
    named = of or host
    key = ec.generate_private_key(ec.SECP256R1())
    subject = ((NameOID.COMMON_NAME, host), (NameOID.ORGANIZATION_NAME, named))
    name = x509.Name([x509.NameAttribute(kind, text) for kind, text in subject])
    now = datetime.now(UTC)
    start, end = (now - 3 * DAY, now - DAY) if ended else (now - DAY, now + DAY)
    by_name = not host.replace(".", "").isdigit()
    alternative = x509.DNSName(host) if by_name else x509.IPAddress(ipaddress.ip_address(host))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), start, end)
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = (folder / f"{named}.{suffix}" for suffix in ("pem", "key"))
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, secret
