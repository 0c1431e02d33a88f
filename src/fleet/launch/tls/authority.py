"""The certificate authority of a job, derived from its token: the same on every machine that knows the token."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CURVE = ec.SECP256R1()
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_SALT = b"fleet: certificate authority of a job, 1"
# Clocks of machines differ, and a key lives no longer than its job: certificates are valid at all times.
_FROM, _UNTIL = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(frozen=True, repr=False)
class Authority:
    """Who signs the certificates of a job."""

    key: ec.EllipticCurvePrivateKey
    certificate: bytes
    """Its own, PEM."""

    @classmethod
    def from_token(cls, token: str) -> Authority:
        """The authority of the job that has this token; takes a moment on purpose, so that guessing takes long."""
        secret = hashlib.scrypt(token.encode(), salt=_SALT, n=1 << 14, r=8, p=1, dklen=48)
        key = ec.derive_private_key(int.from_bytes(secret) % (_ORDER - 1) + 1, _CURVE)
        usage = _usage(is_authority=True)
        builder = _begun(_name("fleet job authority"), key.public_key()).serial_number(1)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        certificate = builder.sign(key, hashes.SHA256())
        return cls(key, certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """A new certificate that carries `name`, for a server as for a worker, and its key; both PEM."""
        key = ec.generate_private_key(_CURVE)
        signed = _begun(_name(name), key.public_key()).serial_number(x509.random_serial_number())
        for extension, critical in (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(is_authority=False), True),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False),
            (x509.SubjectAlternativeName([x509.DNSName(name)]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False),
        ):
            signed = signed.add_extension(extension, critical=critical)
        certificate = signed.sign(self.key, hashes.SHA256())
        return (
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _begun(subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    """What certificates of both kinds have in common."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_name("fleet job authority"))
        .public_key(key)
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
