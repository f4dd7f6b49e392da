"""Private keys of clients under a passphrase: encrypted on the disk, in the clear in memory only.

An encrypted key is PKCS 8 (PBES2) as the package `cryptography` writes it. Flower's SuperNode reads keys in the clear
alone, so the client opens its key and hands it on in a file that is in memory, which the two processes of the client
inherit. Where a system has no such files, it is one that only its user can read, until the client ends.
"""

from __future__ import annotations

import getpass
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from fedlearn.core.errors import UsageError

VARIABLE = "FEDLEARN_PASSPHRASE"
MARK = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"


class Passphrase:
    """A passphrase that is read when a key needs it: from a file, a variable, or the terminal; once.

    Parameters
    ----------
    file
        Its first line is the passphrase.
    seals
        Whether new keys are encrypted by it; else only those that take the place of an encrypted one.
    """

    def __init__(self, file: Path | None = None, *, seals: bool = False) -> None:
        self._file, self.seals, self._said = file, seals or file is not None, b""

    def opened(self, key: Path) -> bytes:
        """Return a private key in the clear, in the format of OpenSSH; from now on new keys are encrypted if it was.

        Raises
        ------
        UsageError
            If the passphrase is missing or wrong.
        """
        data = key.read_bytes()
        if not data.startswith(MARK):
            _check(data, key)
            return data
        said = self._passphrase(key)
        try:
            private = load_pem_private_key(data, said)
        except ValueError:
            raise UsageError(f"{key}: the passphrase is wrong, or the file was changed") from None
        self.seals = True
        return private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())

    def sealed(self, key: Path, private: bytes) -> bytes:
        """Return what is to be written to the file of a new private key, which is given in the clear."""
        if not self.seals:
            return private
        said = self._passphrase(key, is_new=not self._said)
        form = PrivateFormat.PKCS8
        return load_ssh_private_key(private, None).private_bytes(Encoding.PEM, form, BestAvailableEncryption(said))

    def _passphrase(self, key: Path, *, is_new: bool = False) -> bytes:
        if not self._said:
            self._said = self._read(key, is_new=is_new).encode()
        return self._said

    def _read(self, key: Path, *, is_new: bool) -> str:
        if self._file is not None:
            try:
                said = (self._file.read_text().splitlines() or [""])[0]
            except (OSError, ValueError) as error:
                raise UsageError(f"--passphrase-file {self._file}: it cannot be read: {error}") from None
        elif VARIABLE in os.environ:
            said = os.environ.pop(VARIABLE)  # no process that is started later has it
        elif sys.stdin.isatty():
            said = getpass.getpass(f"passphrase of {key}: ")
            if is_new and said != getpass.getpass("the same again: "):
                raise UsageError("the two passphrases differ: nothing was written")
        else:
            raise UsageError(f"{key}: it has a passphrase: give --passphrase-file FILE, or the variable {VARIABLE}")
        if not said:
            raise UsageError(f"{key}: the passphrase is empty")
        return said


def _check(data: bytes, key: Path) -> None:
    try:
        load_ssh_private_key(data, None)
    except TypeError:
        raise UsageError(
            f"{key}: it is encrypted by ssh-keygen, which is not read here: make it by fedlearn request --passphrase"
        ) from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{key}: it is no private key of a client: {error}") from None


@contextmanager
def open_key(key: Path, passphrase: Passphrase) -> Iterator[tuple[Path, list[int]]]:
    """Yield the path at which child processes find a key in the clear, and the file descriptors that they inherit."""
    data = key.read_bytes()
    if not data.startswith(MARK):
        yield key, []
        return
    private = passphrase.opened(key)
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key")
        try:
            os.write(descriptor, private)
            yield Path(f"/proc/self/fd/{descriptor}"), [descriptor]
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "key")
        file.touch(mode=0o600)
        file.write_bytes(private)
        yield file, []
