"""Keys, envelopes and masks: test vectors, and what must be refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from fedlearn.core.errors import Refused
from fedlearn.secure import key_agreement
from fedlearn.secure.envelopes import ENVELOPE, Shares, committed, direction, opened, sealed
from fedlearn.secure.key_agreement import KeyPair, Signer, derived, is_signed, is_usable
from fedlearn.secure.masks import CHUNK, add_mask, reduced, zeros
from fedlearn.secure.question import Question, bits_of, bytes_of

Q = Question("run", 3, 1)
LOW_ORDER = [  # the points of order 1, 2, 4 and 8 of Curve25519, and what is the same modulo 2^255 - 19
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


def test_x25519_of_rfc_7748():
    alice = KeyPair(bytes.fromhex("77076d0a7318a57d3c16c17251b26645df1f5c9d5f2b4cb5a8a1a4d6b2c2a8a0"))
    bob = KeyPair(bytes(range(32)))
    assert alice.agreed(bob.public, b"x") == bob.agreed(alice.public, b"x") != bob.agreed(alice.public, b"y")
    base = KeyPair(bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))  # section 6.1
    assert base.public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"


def test_hkdf_of_rfc_5869():
    found = derived(bytes([0x0B] * 22), b"", 42)  # its test case 3: neither salt nor info
    assert found.hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"


def test_ed25519_of_rfc_8032():
    signer = Signer(bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
    assert signer.public.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert signer.sign(b"").hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155")
    assert is_signed(b"", signer.sign(b""), signer.public)
    assert not is_signed(b"x", signer.sign(b""), signer.public)
    assert not is_signed(b"", b"", signer.public) and not is_signed(b"", signer.sign(b""), b"short")


@pytest.mark.parametrize("point", LOW_ORDER)
def test_keys_of_low_order_are_refused(point):
    assert not is_usable(bytes.fromhex(point))
    with pytest.raises(Refused, match="low-order-key"):
        KeyPair.derived(bytes(32), b"a").agreed(bytes.fromhex(point), b"")
    with pytest.raises(Refused, match="low-order-key"):
        KeyPair.derived(bytes(32), b"a").agreed(b"short", b"")


def test_no_secret_is_shown():
    secret = key_agreement.fresh_secret()
    for each in (KeyPair(secret), Signer(secret), Shares(1234567, 7654321)):
        assert secret.hex() not in repr(each) and repr(secret) not in repr(each) and "1234567" not in repr(each)


def test_an_envelope_opens_for_its_ends_and_its_attempt_alone():
    about, shares = direction(Q, b"roster", 2, 5), Shares(11, 22)
    envelope = sealed(shares, bytes(32), about)
    assert len(envelope) == ENVELOPE
    assert opened(envelope, bytes(32), about) == shares
    others = [
        direction(Q, b"roster", 5, 2),
        direction(Q, b"other", 2, 5),
        direction(Question("run", 3, 2), b"roster", 2, 5),
    ]
    assert [opened(envelope, bytes(32), each) for each in others] == [None] * 3
    assert opened(envelope, bytes([1] * 32), about) is None
    for place in range(len(envelope)):
        spoiled = bytearray(envelope)
        spoiled[place] ^= 1
        assert opened(bytes(spoiled), bytes(32), about) is None
    assert committed(11, about, "seed") != committed(11, about, "key") != committed(12, about, "key")


def test_a_share_that_is_no_element_of_the_field_is_none():
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    about = direction(Q, b"roster", 2, 5)
    for plain in (b"\xff" * 64, bytes(63), b""):
        assert opened(ChaCha20Poly1305(bytes(32)).encrypt(bytes(12), plain, about), bytes(32), about) is None


def test_the_mask_of_the_seed_zero_is_aes_256_of_zero():
    total = zeros(8, 32)
    add_mask(total, bytes(32))
    assert total.astype("<u4").tobytes().hex().startswith("dc95c078a2408989ad48a21492842087")


@pytest.mark.parametrize("place", range(32))
def test_every_byte_of_a_seed_counts(place):
    seed, first, second = bytearray(32), zeros(64, 32), zeros(64, 32)
    add_mask(first, bytes(seed))
    seed[place] ^= 1
    add_mask(second, bytes(seed))
    assert (first != second).sum() > 60


@pytest.mark.parametrize("bits", [15, 23, 32, 36, 64])
@pytest.mark.parametrize("count", [0, 1, 5, CHUNK // 8, CHUNK // 4 + 3])
def test_a_mask_that_is_added_and_taken_away_leaves_no_trace(bits, count):
    values = reduced(np.random.default_rng(bits).integers(0, 2**32, count).astype(zeros(0, bits).dtype), bits)
    total = values.copy()
    add_mask(total, b"a" * 32)
    if count > 4:
        assert (total != values).any()
    add_mask(total, b"b" * 32, sign=-1)
    add_mask(total, b"b" * 32)
    add_mask(total, b"a" * 32, sign=-1)
    assert (reduced(total, bits) == values).all()


@pytest.mark.parametrize("bits", [15, 23])
def test_a_million_masked_entries_are_spread_evenly(bits):
    total = zeros(1_000_000, bits)
    add_mask(total, key_agreement.fresh_secret())
    add_mask(total, key_agreement.fresh_secret(), sign=-1)
    masked = reduced(total, bits)
    assert chisquare(np.bincount(masked >> (bits - 8), minlength=256)).pvalue > 1e-7  # the highest 8 bits
    assert chisquare(np.bincount(masked & 255, minlength=256)).pvalue > 1e-7  # the lowest
    pairs = (masked[:-1] >> (bits - 4)) * 16 + (masked[1:] >> (bits - 4))
    assert chisquare(np.bincount(pairs[::2], minlength=256)).pvalue > 1e-7  # neighbors


def test_what_is_bound_differs_where_anything_differs():
    about = {
        q.about(*parts)
        for q in (Q, Question("run", 1, 3), Question("ru", 3, 1), Question("run", 3, 2))
        for parts in (("a",), ("a", b""), ("a", b"", b""), ("a", b"x"), ("ax",), ("a", b"x", b"y"), ("a", b"xy"))
    }
    assert len(about) == 4 * 7
    assert bits_of([3, 0]) == 9 and bytes_of([0, 3, 8]) == b"\x09\x01" and bytes_of([]) == b""
