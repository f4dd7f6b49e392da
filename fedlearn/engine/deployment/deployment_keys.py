"""Make the missing certificates, node keys and secrets of a deployment; none is ever replaced.

`fedlearn.commands.keys` is its command: ``fedlearn keys --folder keys --clients 3 --host fl.example.org``.

| folder | holds | who may read it |
|---|---|---|
| authority | ca.key | this program only |
| public | ca.crt; nodes/N.pub, the nodes' public keys | everybody |
| server | server.crt, server.key | SuperLink, proxy |
| secret | superexec: the secret of the SuperExec that runs the server app | SuperLink, its SuperExec |
| nodes | N: the private key of the node with partition N | that node |
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedlearn.core.errors import UsageError
from fedlearn.runs.files import write_atomically
from fedlearn.secure.key_agreement import FOLLOWS, RELEASES, NodeKey, link, release

DAYS = 825  # of a server certificate; some TLS libraries accept no longer ones
CA_DAYS = 3650
HOSTS = ("localhost", "127.0.0.1", "superlink", "proxy")


def make_keys(folder: Path, *, clients: int, hosts: Sequence[str] = ()) -> None:
    """Make the missing keys of a deployment with this many clients."""
    ca_key, ca = _authority(folder)
    _server(folder / "server", ca_key, ca, [*HOSTS, *(host for host in hosts if host not in HOSTS)])
    _write_once(folder / "secret" / "superexec", lambda: secrets.token_bytes(32))
    for partition_id in range(clients):
        _node(folder, partition_id)


def _authority(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key_file, certificate_file = folder / "authority" / "ca.key", folder / "public" / "ca.crt"
    _write_once(key_file, lambda: _pem(ec.generate_private_key(ec.SECP256R1())))
    key = load_pem_private_key(key_file.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedlearn certificate authority")])

    def certificate() -> bytes:
        builder = (
            _certificate(name, name, key.public_key(), days=CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(sign_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)

    _write_once(certificate_file, certificate, mode=0o644)
    return key, x509.load_pem_x509_certificate(certificate_file.read_bytes())


def _server(folder: Path, ca_key: ec.EllipticCurvePrivateKey, ca: x509.Certificate, hosts: Sequence[str]) -> None:
    """Make the server's certificate, also where the key exists and the names or dates have changed."""
    _write_once(folder / "server.key", lambda: _pem(ec.generate_private_key(ec.SECP256R1())))
    key = load_pem_private_key((folder / "server.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    if _is_valid(folder / "server.crt", ca, hosts):
        return
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedlearn server")])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = (
        _certificate(name, ca.subject, key.public_key(), days=DAYS)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(issuer, critical=False)
    )
    data = builder.sign(ca_key, hashes.SHA256()).public_bytes(Encoding.PEM)
    write_atomically(folder / "server.crt", data)
    (folder / "server.crt").chmod(0o644)


def _is_valid(path: Path, ca: x509.Certificate, hosts: Sequence[str]) -> bool:
    """Return whether a certificate is of this authority, names these hosts, and is valid for another month."""
    if not path.exists():
        return False
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    is_named = all(_general_name(host) in names for host in hosts)
    is_fresh = certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=30)
    return certificate.issuer == ca.subject and is_named and is_fresh


def valid_until(folder: Path) -> datetime:
    """Return when the server's certificate in a folder of keys ends, in UTC."""
    return validity(folder)[1]


def validity(folder: Path) -> tuple[datetime, datetime]:
    """Return from when to when the server's certificate in a folder of keys is valid, in UTC."""
    certificate = x509.load_pem_x509_certificate((folder / "server" / "server.crt").read_bytes())
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def _node(folder: Path, partition_id: int) -> None:
    """Make a node's key pair, in the one format that Flower reads, unless the private key is with its node alone."""
    private, public = folder / "nodes" / str(partition_id), folder / "public" / "nodes" / f"{partition_id}.pub"
    if public.exists() and not private.exists():
        return
    _write_once(private, new_node_key)
    line = f"{public_line(private.read_bytes())} partition-{partition_id}\n".encode()
    _write_once(public, lambda: line, mode=0o644)


def public_line(private: bytes) -> str:
    """Return the public key of a private one, as a line of OpenSSH."""
    key = load_ssh_private_key(private, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def rotate_node_key(folder: Path, partition_id: int) -> None:
    """Give a node a new key, signed by the one before, which stays in the folder; its peers know it by both.

    Raises
    ------
    UsageError
        If the folder does not hold the node's private key.
    """
    old, line = _key_and_line(folder, partition_id, "--rotate")
    private, public = folder / "nodes" / str(partition_id), _public(folder, partition_id)
    new = NodeKey(new_node_key())
    links = [link(old, new.public).decode(), *(word for word in line.split() if word.startswith(FOLLOWS.decode()))]
    private.rename(private.with_name(f"{partition_id}.{len(links)}"))
    _write_once(private, lambda: new.file)
    public.unlink()
    _node(folder, partition_id)
    write_atomically(public, f"{public.read_text().strip()} {' '.join(links)}\n".encode())
    public.chmod(0o644)


def release_sums(folder: Path, partition_id: int) -> None:
    """Sign with a node's key that the node has left for good, and that its exact sums may be revealed.

    Raises
    ------
    UsageError
        If the folder does not hold the node's private key.
    """
    key, line = _key_and_line(folder, partition_id, "--release")
    if RELEASES.decode() not in line:
        write_atomically(_public(folder, partition_id), f"{line.strip()} {release(key).decode()}\n".encode())
        _public(folder, partition_id).chmod(0o644)


def _key_and_line(folder: Path, partition_id: int, flag: str) -> tuple[NodeKey, str]:
    try:
        return NodeKey((folder / "nodes" / str(partition_id)).read_bytes()), _public(folder, partition_id).read_text()
    except FileNotFoundError as error:
        raise UsageError(f"{flag} {partition_id}: {error.filename} is missing: nothing can sign") from None


def _public(folder: Path, partition_id: int) -> Path:
    return folder / "public" / "nodes" / f"{partition_id}.pub"


def new_node_key() -> bytes:
    """Return a new private key of a node, in the format of OpenSSH."""
    key = ec.generate_private_key(ec.SECP384R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        subject_name=subject, issuer_name=issuer, public_key=key, serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(minutes=5), not_valid_after=now + timedelta(days=days),
    )  # fmt: skip


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates, key_cert_sign=sign_certificates, crl_sign=sign_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_once(path: Path, make: Callable[[], bytes], *, mode: int = 0o600) -> None:
    """Write a file that does not exist yet; only its owner may read it, unless `mode` says otherwise."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with _umask(0o077):
        write_atomically(path, make())
    path.chmod(mode)


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def give_to(owner: str, folders: Sequence[Path]) -> None:
    """Give folders and their content to an owner, as ``1000:1000``; without being root, do nothing."""
    if os.geteuid() != 0:
        return
    user, _, group = owner.partition(":")
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, int(user), int(group or user), follow_symlinks=False)
