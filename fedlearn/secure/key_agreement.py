"""Keys of one attempt, and what two nodes agree on: X25519 (RFC 7748), HKDF-SHA-256 (RFC 5869), Ed25519 (RFC 8032).

All primitives come from the package `cryptography`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

from fedlearn.core.errors import Refused
from fedlearn.secure import shamir

SIZE = 32  # bytes of a secret, a public key and everything derived
FOLLOWS = b"follows="  # in the line of a public key: the key before it, and that key's signature of the new one
RELEASES = b"releases="  # and that key's signature that its node has left, and that its sums may be revealed
STUDY = b"study="  # and the public key of a study, and its signature of the first key of a node
NODE_KEY = 49  # bytes of the public key of a node of a deployment: a compressed point of P-384


@cache
def _parts() -> Any:
    """Return the modules of `cryptography`: they are loaded with the first key, not with fedlearn."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return hashes, ed25519, x25519, HKDF


def fresh_secret() -> bytes:
    """Return a secret of the operating system's generator: `SIZE` bytes."""
    return secrets.token_bytes(SIZE)


def derived(secret: bytes, about: bytes, size: int = SIZE) -> bytes:
    """Return bytes that a uniform secret determines, and that say nothing of it or of what it gives for other uses."""
    hashes, _, _, hkdf = _parts()
    found: bytes = hkdf(hashes.SHA256(), size, salt=None, info=about).derive(secret)
    return found


def derived_element(secret: bytes, about: bytes) -> int:
    """Return an element of the field of `shamir`, uniform but for one part in 2^256."""
    return int.from_bytes(derived(secret, about, 2 * SIZE), "little") % shamir.PRIME


@dataclass(frozen=True)
class KeyPair:
    """An X25519 key pair.

    Parameters
    ----------
    secret
        `SIZE` bytes, an element of the field of `shamir`, so that it can be shared.
    """

    secret: bytes = field(repr=False)

    @classmethod
    def derived(cls, secret: bytes, about: bytes) -> KeyPair:
        """Return the key pair that a secret determines for one use."""
        return cls(shamir.to_bytes(derived_element(secret, about)))

    @cached_property
    def _private(self) -> Any:
        _, _, x25519, _ = _parts()
        return x25519.X25519PrivateKey.from_private_bytes(self.secret)

    @cached_property
    def public(self) -> bytes:
        """The public key, `SIZE` bytes."""
        found: bytes = self._private.public_key().public_bytes_raw()
        return found

    def agreed(self, public: bytes, about: bytes) -> bytes:
        """Return the secret that this pair and the owner of another public key share for one use: `SIZE` bytes.

        Raises
        ------
        Refused
            If the public key has low order, so that everybody knows the secret, or is no key.
        """
        _, _, x25519, _ = _parts()
        try:
            shared = self._private.exchange(x25519.X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise Refused("low-order-key", "a public key from which no secret can be agreed") from None
        return derived(shared, about)


@dataclass(frozen=True)
class Signer:
    """An Ed25519 key of a node, with which it signs what it says to other nodes.

    Parameters
    ----------
    secret
        `SIZE` bytes: of one attempt, which ties what a node says to the keys that the server has relayed; or the
        node's own over all runs, by which other nodes know it.
    """

    secret: bytes = field(repr=False)

    @cached_property
    def _private(self) -> Any:
        _, ed25519, _, _ = _parts()
        return ed25519.Ed25519PrivateKey.from_private_bytes(self.secret)

    @cached_property
    def public(self) -> bytes:
        """The key that verifies the signatures, `SIZE` bytes."""
        found: bytes = self._private.public_key().public_bytes_raw()
        return found

    def sign(self, statement: bytes) -> bytes:
        """Return the signature of a statement, 64 bytes; the same each time."""
        found: bytes = self._private.sign(statement)
        return found


@dataclass(frozen=True)
class NodeKey:
    """The key by which a node of a deployment is known over all runs, as a `Signer`: ECDSA on P-384 with SHA-384.

    Signatures are deterministic (RFC 6979): a node that is asked again gives the same bytes.

    Parameters
    ----------
    file
        The bytes of its private key, in the format of OpenSSH, as Flower reads it.
    """

    file: bytes = field(repr=False)

    @cached_property
    def _private(self) -> Any:
        from cryptography.hazmat.primitives.serialization import load_ssh_private_key

        return load_ssh_private_key(self.file, None)

    @cached_property
    def public(self) -> bytes:
        """The key that verifies the signatures, `NODE_KEY` bytes."""
        return _point(self._private.public_key())

    def sign(self, statement: bytes) -> bytes:
        """Return the signature of a statement; the same each time."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        found: bytes = self._private.sign(statement, ec.ECDSA(hashes.SHA384(), deterministic_signing=True))
        return found


class ListedKey(NamedTuple):
    """The public key of a node, as a line has it.

    Parameters
    ----------
    key, first
        The key, as `NodeKey.public` has it; the first key of its node, which is the same unless it follows one.
    has_left
        Whether the node has left for good, and has released its sums.
    study
        Public key of a study that has signed `first`; empty without one.
    """

    key: bytes
    first: bytes
    has_left: bool
    study: bytes = b""


def listed_keys(text: bytes) -> list[ListedKey]:
    """Return the public keys of nodes in a text, a line of OpenSSH each.

    Raises
    ------
    ValueError
        If a line is no such key, or says what its key, or the one that it follows, has not signed.
    """
    lines = (line.strip() for line in text.splitlines())
    return [_listed(line) for line in lines if line and not line.startswith(b"#")]


def node_keys_in(text: bytes, *, colluders: int = 0) -> frozenset[bytes]:
    """Return the public keys in a text of the nodes that have not left; each that has counts as a colluder.

    Raises
    ------
    ValueError
        As `listed_keys` does, and if more nodes have left than colluders are tolerated.
    """
    listed = listed_keys(text)
    if (left := sum(each.has_left for each in listed)) > colluders:
        raise ValueError(f"{left} clients have left, each of which counts as a colluder: take --colluding-peers {left}")
    return frozenset(each.key for each in listed if not each.has_left)


def _listed(line: bytes) -> ListedKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        first = key = _point(load_ssh_public_key(line))
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from None
    has_left = False
    for word in line.split():
        if word.startswith(RELEASES):
            if not is_signed(_releasing(key), bytes.fromhex(word.removeprefix(RELEASES).decode()), key):
                raise ValueError("a key says that its sums are released, and has not signed it")
            has_left = True
        elif word.startswith(FOLLOWS):
            old, signature = (bytes.fromhex(part) for part in word.removeprefix(FOLLOWS).decode().split(":"))
            if not is_signed(_following(first, old), signature, old):
                raise ValueError("a key says that it follows one that has not signed it")
            first = old
    study = b""
    for word in line.split():
        if word.startswith(STUDY):
            study, signature = (bytes.fromhex(part) for part in word.removeprefix(STUDY).decode().split(":"))
            if not is_signed(_in_study(first, study), signature, study):
                raise ValueError("a key says that it is one of a study that has not signed it")
    return ListedKey(key, first, has_left, study)


def link(old: NodeKey, new: bytes) -> bytes:
    """Return the word in the line of a node's new key which says that it follows an old one."""
    return FOLLOWS + f"{old.public.hex()}:{old.sign(_following(new, old.public)).hex()}".encode()


def release(key: NodeKey) -> bytes:
    """Return the signed word in a public key's line: the node has left, and its exact sums may be revealed."""
    return RELEASES + key.sign(_releasing(key.public)).hex().encode()


def membership(study: Signer, first: bytes) -> bytes:
    """Return the word in a public key's line which says that a study has its node, by the node's first key."""
    return STUDY + f"{study.public.hex()}:{study.sign(_in_study(first, study.public)).hex()}".encode()


def _in_study(first: bytes, study: bytes) -> bytes:
    return b"fedlearn study key" + study + b"has node" + first


def _releasing(key: bytes) -> bytes:
    return b"fedlearn node key" + key + b"has left and releases its sums"


def _following(new: bytes, old: bytes) -> bytes:
    return b"fedlearn node key" + new + b"follows" + old


def _point(key: Any) -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    if not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP384R1)):
        raise ValueError("the key of a node is one on the curve P-384")
    return key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)


@lru_cache(maxsize=4096)  # nodes of a simulation, in one process, look at the same signatures
def is_signed(statement: bytes, signature: bytes, public: bytes) -> bool:
    """Return whether the owner of a key, of an attempt or of a node, has signed a statement."""
    from cryptography.exceptions import InvalidSignature

    hashes, ed25519, _, _ = _parts()
    try:
        if len(public) == NODE_KEY:
            from cryptography.hazmat.primitives.asymmetric import ec

            key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP384R1(), public)
            key.verify(signature, statement, ec.ECDSA(hashes.SHA384()))
        else:
            ed25519.Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_usable(public: bytes) -> bool:
    """Return whether a secret can be agreed with the owner of an X25519 key."""
    try:
        KeyPair.derived(fresh_secret(), b"a key to try others with").agreed(public, b"")
    except Refused:
        return False
    return True
