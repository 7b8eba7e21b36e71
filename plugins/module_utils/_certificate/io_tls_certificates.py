# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Create and read certificates with Python's cryptography, which is installed on every control node."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    x509 = None

# Clocks differ; a new certificate must already be valid on hosts whose clock is behind.
_BACKDATED = datetime.timedelta(hours=1)


@dataclasses.dataclass(frozen=True)
class Pair:
    """A certificate, optionally followed by its chain, and its private key, in PEM format."""

    certificate: str
    key: str


def need_cryptography() -> None:
    """Check that cryptography is installed.

    :raises BackendError: it is not installed.
    """
    if x509 is None:
        raise BackendError(
            "the Python library cryptography is not installed on this host.",
            hint="Run this on the control node with ansible_python_interpreter set to ansible_playbook_python.",
        )


def _name(common: str) -> t.Any:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _write_key(key: t.Any) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode("ascii")


def _builder(subject: t.Any, issuer: t.Any, key: t.Any, now: float, days: int) -> t.Any:
    begin = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - _BACKDATED)
        .not_valid_after(begin + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(**wanted: bool) -> t.Any:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: wanted.get(name, False) for name in names})


def make_authority(common: str, now: float, days: int) -> Pair:
    """Return a new private authority, which cannot sign intermediate authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(common), _name(common), key, now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    made = builder.sign(key, hashes.SHA256())
    return Pair(made.public_bytes(serialization.Encoding.PEM).decode("ascii"), _write_key(key))


def make_certificate(authority: Pair, common: str, names: t.Iterable[str], now: float, days: int) -> Pair:
    """Return a server certificate with a new key.

    :arg names: subject alternative names, DNS names and addresses.
    """
    signer = _read_key(authority.key)
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode("ascii"))
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = []
    for name in sorted(set(names)):
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            alternatives.append(x509.DNSName(name))
    builder = _builder(_name(common), issuer.subject, key, now, days)
    builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    made = builder.sign(signer, hashes.SHA256())
    return Pair(made.public_bytes(serialization.Encoding.PEM).decode("ascii"), _write_key(key))


@dataclasses.dataclass(frozen=True)
class Read:
    """Properties of a certificate and its key.

    :arg fits: whether the key belongs to the certificate.
    :arg authority: whether it is the certificate of an authority.
    :arg not_before, not_after: start and end of its validity, in seconds since the epoch.
    """

    fits: bool
    authority: bool
    not_before: float
    not_after: float
    names: frozenset[str]
    fingerprint: str


def read(pair: Pair, path: str = "load_balancer_certificate", key_path: str = "load_balancer_private_key") -> Read:
    """Return the properties of a pair.

    :arg path, key_path: paths of certificate and key in errors.
    :raises InputError: the certificate or the key is invalid.
    """
    try:
        first = x509.load_pem_x509_certificate(pair.certificate.encode("utf-8"))
    except ValueError as error:
        raise InputError(
            "is not a valid certificate in PEM format.", path=path, hint="Put the server certificate first, followed by the intermediate certificates."
        ) from error
    key = _read_key(pair.key, key_path)
    mode, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return Read(
        fits=key.public_key().public_bytes(mode, form) == first.public_key().public_bytes(mode, form),
        authority=_is_authority(first),
        not_before=_moment(first, "not_valid_before"),
        not_after=_moment(first, "not_valid_after"),
        names=_names(first),
        fingerprint=first.fingerprint(hashes.SHA256()).hex(),
    )


def signed_by(certificate: str, authority: str) -> bool:
    """Whether a certificate is signed by an authority."""
    one = x509.load_pem_x509_certificate(certificate.encode("ascii"))
    other = x509.load_pem_x509_certificate(authority.encode("ascii"))
    try:
        other.public_key().verify(one.signature, one.tbs_certificate_bytes, ec.ECDSA(one.signature_hash_algorithm))
    except (InvalidSignature, UnsupportedAlgorithm, AttributeError, TypeError):
        return False
    return one.issuer == other.subject


def _read_key(text: str, path: str = "load_balancer_private_key") -> t.Any:
    try:
        return serialization.load_pem_private_key(text.encode("utf-8"), password=None)
    except TypeError as error:
        raise InputError("is encrypted with a passphrase.", path=path, hint="Provide the key without a passphrase; it is stored with mode 0600.") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError("is not a valid private key in PEM format.", path=path) from error


def _moment(certificate: t.Any, name: str) -> float:
    # the attributes with a time zone do not exist in the oldest supported version of cryptography
    aware = getattr(certificate, f"{name}_utc", None)
    return (aware or getattr(certificate, name).replace(tzinfo=datetime.timezone.utc)).timestamp()


def _is_authority(certificate: t.Any) -> bool:
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except x509.ExtensionNotFound:
        return False


def _names(certificate: t.Any) -> frozenset[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset([*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))])
