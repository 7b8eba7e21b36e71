# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Create and read certificates, authorities and SSH keys with Python's cryptography, which is installed on every control node."""

from __future__ import annotations

import datetime
import ipaddress
import math
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:  # on a managed host, where it is not used
    x509 = None  # type: ignore[assignment]

# so that a host whose clock is behind accepts it
_BACKDATED = datetime.timedelta(days=1)
_REMOVE = "Remove the file to create a new one."


class Pair(t.NamedTuple):
    """A certificate, optionally followed by its chain, and its private key, in PEM format."""

    certificate: str
    key: str


class Read(t.NamedTuple):
    """Properties of a certificate and its key.

    ``fits`` is whether the key belongs to the certificate, ``authority`` whether it may sign others. ``not_before`` and
    ``not_after`` are in seconds since the epoch, ``names`` the subject alternative names, DNS names and addresses.
    """

    fits: bool
    authority: bool
    not_before: float
    not_after: float
    names: frozenset[str]
    fingerprint: str


def need_cryptography() -> None:
    """Check that cryptography is installed.

    :raises BackendError: it is not installed.
    """
    if x509 is None:
        raise BackendError(
            f"the Python interpreter of this host, {sys.executable}, cannot import cryptography.",
            hint="Install it, or run this on the control node with ansible_python_interpreter set to ansible_playbook_python.",
        )


def make_authority(common: str, now: float, days: int) -> Pair:
    """Return a new private authority, which cannot sign intermediate authorities.

    :raises BackendError: the library is not installed.
    """
    need_cryptography()
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(common), _name(common), key, now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def renew_authority(authority: Pair, now: float, days: int) -> Pair:
    """Return an authority with the key, the name and the extensions of another one, and a new end.

    Each of the two accepts what the other has signed, because certificates name the key of their authority, not its serial number.

    :arg authority: an authority that :func:`read` accepts, and that is :func:`signed_by` itself.
    :raises BackendError: the library is not installed.
    """
    need_cryptography()
    key = _read_key(authority.key, "authority")
    old = x509.load_pem_x509_certificate(authority.certificate.encode("ascii"))
    end = datetime.datetime.fromtimestamp(now + days * 86400, datetime.timezone.utc)
    builder = _begin(old.subject, old.subject, key, now, end)
    for extension in old.extensions:
        # other tools write the old serial number into this one, which an authority does not need
        if not isinstance(extension.value, x509.AuthorityKeyIdentifier):
            builder = builder.add_extension(extension.value, critical=extension.critical)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def make_certificate(authority: Pair, common: str, names: t.Iterable[str], now: float, days: int, *, client: bool = False) -> Pair:
    """Return a server certificate with a new key, which does not outlive its authority.

    :arg authority: an authority that :func:`read` accepts.
    :arg names: subject alternative names, DNS names and addresses.
    :arg days: its validity, if the authority is valid as long.
    :arg client: whether it is also valid for client authentication.
    :raises BackendError: the library is not installed.
    """
    need_cryptography()
    signer = _read_key(authority.key, "authority")
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode("ascii"))
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives: list[t.Any] = []
    for name in sorted(set(names)):
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            alternatives.append(x509.DNSName(name))
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if client else [])]
    builder = _builder(_name(common), issuer.subject, key, now, days, _moment(issuer, "not_valid_after"))
    builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    return _pair(builder.sign(signer, hashes.SHA256()), key)


def make_ssh_key() -> str:
    """Return a new private ed25519 key in OpenSSH format, without a passphrase.

    :raises BackendError: the library is not installed.
    """
    need_cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()).decode("ascii")


def read(pair: Pair, path: str, key_path: str, hint: str = _REMOVE) -> Read:
    """Return the properties of a pair.

    :arg path, key_path: paths of certificate and key in errors, ``hint`` for an invalid certificate.
    :raises InputError: the certificate or the key is invalid.
    :raises BackendError: the library is not installed.
    """
    need_cryptography()
    first = _load(pair.certificate, path, hint)
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


def expires(certificate: str, path: str) -> float:
    """Return when a certificate ends, in seconds since the epoch.

    :arg path: its path in errors.
    :raises InputError: it is invalid.
    """
    return _moment(_load(certificate, path, _REMOVE), "not_valid_after")


def signed_by(certificate: str, authority: str, path: str) -> bool:
    """Whether a certificate is signed by an authority.

    :arg path: path of the authority in errors.
    :raises InputError: the authority is invalid.
    """
    one = x509.load_pem_x509_certificate(certificate.encode("ascii"))
    other = _load(authority, path, _REMOVE)
    try:
        other.public_key().verify(one.signature, one.tbs_certificate_bytes, ec.ECDSA(one.signature_hash_algorithm))
    except (InvalidSignature, UnsupportedAlgorithm, AttributeError, TypeError):
        return False
    return one.issuer == other.subject


def authorities(text: str, path: str) -> frozenset[tuple[str, bytes]]:
    """Return the name and the public key of each certificate in a text: what decides whether one authority accepts what another has signed.

    :raises InputError: one of them is invalid.
    :raises BackendError: the library is not installed.
    """
    need_cryptography()
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    found = [_load(begin + part.partition(end)[0] + end + "\n", path, "Use certificates in PEM format.") for part in text.split(begin)[1:]]
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return frozenset((one.subject.rfc4514_string(), one.public_key().public_bytes(serialization.Encoding.DER, form)) for one in found)


def pair_of(text: str, path: str) -> Pair:
    """Return certificate and key from a text with both.

    :raises InputError: one of them is missing.
    """
    return Pair(certificate_of(text, path), _part(text, "PRIVATE KEY", path))


def certificate_of(text: str, path: str) -> str:
    """Return the certificate from a text that can also contain its key.

    :raises InputError: it contains none.
    """
    return _part(text, "CERTIFICATE", path)


def _part(text: str, what: str, path: str) -> str:
    begin, end = f"-----BEGIN {what}-----", f"-----END {what}-----"
    if begin not in text or end not in text:
        raise InputError(f"contains no {what.lower()} in PEM format.", path, _REMOVE)
    return begin + text.partition(begin)[2].partition(end)[0] + end + "\n"


def _name(common: str) -> t.Any:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _builder(subject: t.Any, issuer: t.Any, key: t.Any, now: float, days: int, latest: float = math.inf) -> t.Any:
    end = datetime.datetime.fromtimestamp(min(now + days * 86400, latest), datetime.timezone.utc)
    return _begin(subject, issuer, key, now, end).add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _begin(subject: t.Any, issuer: t.Any, key: t.Any, now: float, end: datetime.datetime) -> t.Any:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime.fromtimestamp(now, datetime.timezone.utc) - _BACKDATED)
        .not_valid_after(end)
    )


def _usage(**wanted: bool) -> t.Any:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: wanted.get(name, False) for name in names})


def _pair(certificate: t.Any, key: t.Any) -> Pair:
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return Pair(certificate.public_bytes(pem).decode("ascii"), key.private_bytes(pem, form, serialization.NoEncryption()).decode("ascii"))


def _load(text: str, path: str, hint: str) -> t.Any:
    try:
        return x509.load_pem_x509_certificate(text.encode("utf-8"))
    except ValueError as error:
        raise InputError("is not a valid certificate in PEM format.", path, hint) from error


def _read_key(text: str, path: str) -> t.Any:
    try:
        return serialization.load_pem_private_key(text.encode("utf-8"), password=None)
    except TypeError as error:
        raise InputError("is encrypted with a passphrase.", path, "Provide the key without a passphrase; it is stored with mode 0600.") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError("is not a valid private key in PEM format.", path) from error


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
