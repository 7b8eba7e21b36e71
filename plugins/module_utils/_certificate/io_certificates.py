# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Create a private certificate authority and certificates signed by it, as PEM text. Runs on the control node, where cryptography is installed."""

from __future__ import annotations

import datetime
import ipaddress
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:  # on a managed host, where it is not used
    x509 = None  # type: ignore[assignment]

_YEARS = 10
_DAY = datetime.timedelta(days=1)


def make_authority(name: str) -> str:
    """Return key and certificate of a new authority, in one text.

    :raises BackendError: the library is not installed.
    """
    _require_library()
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    builder = _dated(x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key()))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _pem_key(key) + _pem(builder.sign(key, hashes.SHA256()))


def make_certificate(authority: str, name: str, addresses: t.Iterable[str], more_names: t.Iterable[str] = ()) -> str:
    """Return key and certificate of a host for server and client authentication, in one text.

    :arg authority: text returned by :func:`make_authority`.
    :arg more_names: additional subject alternative names.
    :raises BackendError: the library is not installed, or the authority cannot be parsed.
    """
    _require_library()
    try:
        ca_key = serialization.load_pem_private_key(authority.encode("ascii"), None)
        ca = x509.load_pem_x509_certificate(certificate_of(authority).encode("ascii"))
    except ValueError as error:
        raise BackendError(f"cannot parse the key and certificate of the authority: {error}.", hint="Remove its file to create a new one.") from error
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    builder = _dated(x509.CertificateBuilder().subject_name(subject).issuer_name(ca.subject).public_key(key.public_key()))
    names = [*(x509.DNSName(one) for one in dict.fromkeys((name, *more_names))), *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses)]
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key())  # type: ignore[arg-type]
    builder = builder.add_extension(identifier, critical=False)
    return _pem_key(key) + _pem(builder.sign(ca_key, hashes.SHA256()))  # type: ignore[arg-type]


def make_ssh_key() -> str:
    """Return a new private ed25519 key in OpenSSH format, without a passphrase.

    :raises BackendError: the library is not installed.
    """
    _require_library()
    key = ed25519.Ed25519PrivateKey.generate()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()).decode("ascii")


def lacking(text: str, addresses: t.Iterable[str], names: t.Iterable[str], spare_days: int) -> tuple[str, ...]:
    """Return the names that a certificate lacks, and ``its end`` if it expires soon; empty if it can be kept.

    :raises BackendError: the library is not installed, or the certificate cannot be parsed.
    """
    _require_library()
    try:
        found = x509.load_pem_x509_certificate(certificate_of(text).encode("ascii"))
    except ValueError as error:
        raise BackendError(f"cannot parse the certificate: {error}.", hint="Remove its file to create a new one.") from error
    try:
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return tuple([*addresses, *names])
    present = {str(address) for address in alternatives.get_values_for_type(x509.IPAddress)} | set(alternatives.get_values_for_type(x509.DNSName))
    # old versions of the library only have not_valid_after, without a time zone
    ends = found.not_valid_after.replace(tzinfo=datetime.timezone.utc) if not hasattr(found, "not_valid_after_utc") else found.not_valid_after_utc
    late = ["its end"] if ends - datetime.datetime.now(datetime.timezone.utc) < spare_days * _DAY else []
    return tuple([*(name for name in [*addresses, *names] if name not in present), *late])


def certificate_of(text: str) -> str:
    """Return the certificate from a text that also contains its key."""
    return _part(text, "CERTIFICATE")


def key_of(text: str) -> str:
    """Return the key from a text that also contains its certificate."""
    return _part(text, "PRIVATE KEY")


def _part(text: str, what: str) -> str:
    begin, end = f"-----BEGIN {what}-----", f"-----END {what}-----"
    if begin not in text or end not in text:
        raise BackendError(f"contains no {what.lower()} in PEM format.", hint="Remove the file to create a new one.")
    return begin + text.partition(begin)[2].partition(end)[0] + end + "\n"


def _require_library() -> None:
    if x509 is None:
        raise BackendError("the Python library cryptography is not installed on this host.", hint="Install it; Ansible Vault requires it as well.")


def _dated(builder: t.Any) -> t.Any:
    now = datetime.datetime.now(datetime.timezone.utc)
    # backdated, so that a host whose clock is behind accepts it
    return builder.serial_number(x509.random_serial_number()).not_valid_before(now - _DAY).not_valid_after(now + _YEARS * 365 * _DAY)


def _usage(signs: bool) -> t.Any:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_key(key: t.Any) -> str:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode("ascii")


def _pem(certificate: t.Any) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")
