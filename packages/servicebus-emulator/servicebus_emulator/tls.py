"""TLS contexts, and a self-signed certificate for local use."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

_VALID_DAYS = 365


class TlsError(Exception):
    """The certificate or key cannot be used."""


def context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Returns the context of a server with this certificate chain. Raises TlsError if the files cannot be used."""
    tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls_context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        tls_context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"cannot use the certificate {certificate} with the key {key}: {error}") from error
    return tls_context


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Makes a self-signed certificate for localhost in `folder`, unless the folder has one that is valid for a day.

    Returns the paths of certificate and key.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    certificate, key = folder / "bus-certificate.pem", folder / "bus-key.pem"
    now = datetime.now(UTC)
    if certificate.exists() and key.exists():
        old = x509.load_pem_x509_certificate(certificate.read_bytes())
        if old.not_valid_after_utc > now + timedelta(days=1):
            return certificate, key
    private_key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private_key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    key.touch(mode=0o600)
    key.write_bytes(
        private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return certificate, key
