"""Admission of clients by signed requests: a request is a file, and each step is a line of a log that is never changed.

A site makes its key pair, of which the private key never leaves it, and a request that this key has signed. On the
server's machine a person compares the key's fingerprint with the site by another way, and approves or refuses. An
approved key stands in ``public/nodes`` of the server's keys, as ``fedlearn keys`` writes it; a revoked one is taken
from there, and from the SuperLink, which then refuses each message of it. A key that the client's present key has
signed takes its place without a decision: number, end and fingerprint, which is that of the first key, stay.

The log ``admissions.log`` beside the keys has a line for each step: what, when, by whom, why. Each line ends in the
SHA-256 of itself and all lines before it (`fedlearn.privacy.ledger_lines`): a line that was changed, cut or moved is
found. Who may write the folder can write another log from its first line on: copy the last checksum elsewhere.
"""

from __future__ import annotations

import getpass
import json
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from fedlearn.core.errors import UsageError, printable, quoted
from fedlearn.engine.deployment.deployment_keys import new_node_key, public_line
from fedlearn.engine.deployment.key_passphrase import Passphrase
from fedlearn.privacy.ledger_lines import LedgerDamaged, check_of, line_of, sound_lines
from fedlearn.runs.files import write_atomically
from fedlearn.runs.ledgers import LedgerFile, Seen
from fedlearn.secure.key_agreement import FOLLOWS, NodeKey, is_signed, link, listed_keys

LARGEST = 1 << 14  # bytes of a request
LONGEST_NAME = 80  # letters
ROTATION = "rotation.json"
MOST_WAITING = 1000  # requests that are neither approved nor refused
RECEIVED, APPROVED, REFUSED, REVOKED, EXPIRED = "received", "approved", "refused", "revoked", "expired"


@dataclass(frozen=True, slots=True)
class Request:
    """A site's request to take part.

    Parameters
    ----------
    name
        Of the site, in its own words.
    key
        Its public key, a line of OpenSSH.
    made
        When, by the site's clock.
    server
        The address that the site was told.
    signature
        Of all the rest by the private key, in hexadecimal digits.
    """

    name: str
    key: str
    made: str
    server: str
    signature: str = ""

    @property
    def statement(self) -> bytes:
        """What the key signs."""
        return (
            b"fedlearn request for admission" + json.dumps(asdict(replace(self, signature="")), sort_keys=True).encode()
        )

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the site's first key, in groups of four hexadecimal digits: what two people compare."""
        return fingerprint_of(self.key)

    def warnings(self) -> list[str]:
        """Return what a reader of the name may not see: letters that look like others, or have no width."""
        odd = [letter for letter in dict.fromkeys(self.name) if not (letter.isascii() or _is_latin(letter))]
        named = ", ".join(f"{letter!r} {unicodedata.name(letter, 'without a name').lower()}" for letter in odd)
        return [f"the name has letters that are not Latin: {named}"] if odd else []


def make_request(folder: Path, *, name: str, server: str, passphrase: Passphrase | None = None) -> Path:
    """Make a key pair and a request for it, unless they are there; return the path of the request.

    Raises
    ------
    UsageError
        If the name is empty, too long or not printable, or the passphrase of the key is missing or wrong.
    """
    if not name.strip() or len(name) > LONGEST_NAME or printable(name) != name:
        raise UsageError(f"--name {quoted(name)}: give a printable name of 1 to {LONGEST_NAME} letters")
    key_file, request_file = folder / "own.key", folder / "request.json"
    if not request_file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        passphrase = passphrase or Passphrase()
        if not key_file.exists():
            _write_private(key_file, passphrase)
        key = NodeKey(passphrase.opened(key_file))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        asked = Request(unicodedata.normalize("NFC", name.strip()), public_line(key.file), now, server)
        signed = replace(asked, signature=key.sign(asked.statement).hex())
        write_atomically(request_file, json.dumps(asdict(signed), indent=1).encode() + b"\n")
    return request_file


def _write_private(file: Path, passphrase: Passphrase) -> None:
    sealed = passphrase.sealed(file, new_node_key())
    file.touch(mode=0o600)
    file.write_bytes(sealed)


def make_rotation(folder: Path, passphrase: Passphrase | None = None) -> Path:
    """Make a new key pair, and a request for it which the key before has signed, too; return the path of the request.

    The new key is ``N.new`` beside the key ``N``, or ``own.new`` beside ``own.key``. Called again, it changes nothing
    until the new key has taken the place of the old one. The new one has the passphrase of the old one.

    Raises
    ------
    UsageError
        If there is no key, or more than one; or its passphrase is missing or wrong.
    """
    there = [path for path in folder.glob("*") if path.name == "own.key" or path.name.isdecimal()]
    if len(there) != 1:
        raise UsageError(f"--folder {folder}: it has {len(there)} keys: name the folder that has one, your own")
    passphrase = passphrase or Passphrase()
    old, new_file, file = (
        NodeKey(passphrase.opened(there[0])),
        there[0].with_name(f"{there[0].stem}.new"),
        folder / ROTATION,
    )
    if not new_file.exists():
        _write_private(new_file, passphrase)
    new = NodeKey(passphrase.opened(new_file))
    before = [each for each in (folder / ROTATION, folder / "request.json") if each.exists()]
    asked = [read_request(each.read_bytes()) for each in before]
    if any(listed_keys(each.key.encode())[0].key == new.public for each in asked):
        return file
    known = next((each for each in asked if listed_keys(each.key.encode())[0].key == old.public), None)
    links = [link(old, new.public).decode(), *(known.key.split()[2:] if known else ())]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    line = " ".join([public_line(new.file), *(word for word in links if word.startswith(FOLLOWS.decode()))])
    made = Request(known.name if known else there[0].stem, line, now, known.server if known else "")
    signed = replace(made, signature=new.sign(made.statement).hex())
    write_atomically(file, json.dumps(asdict(signed), indent=1).encode() + b"\n")
    return file


def read_request(data: bytes) -> Request:
    """Return a request whose signature is that of its key.

    Raises
    ------
    UsageError
        If it is none.
    """
    try:
        if len(data) > LARGEST:
            raise ValueError(f"it has {len(data):,} bytes")
        found = Request(**{name: str(value) for name, value in json.loads(data).items()})
        (listed,) = listed_keys(found.key.encode())
        is_whole = is_signed(found.statement, bytes.fromhex(found.signature), listed.key)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"it is no request of a site: {printable(str(error))[:200]}") from None
    if not is_whole:
        raise UsageError("its signature is not that of its key: it was changed, or another key has signed it")
    if not found.name.strip() or len(found.name) > LONGEST_NAME or printable(found.name) != found.name:
        raise UsageError(f"its name is not a printable one of 1 to {LONGEST_NAME} letters")
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """A line of the log.

    Parameters
    ----------
    step
        What has happened to the key.
    fingerprint, name
        Of the key, and of the site.
    client
        The number that it has got, or had; -1 without one.
    when, who, why
        In UTC; the user of the server's machine; in that user's words.
    until
        When an approval ends, in UTC; empty for never.
    key, made
        Of the request.
    """

    step: str
    fingerprint: str
    name: str
    client: int
    when: str
    who: str
    why: str
    until: str
    key: str
    made: str


@dataclass
class _Known:
    """What a log says, up to its last line that was read or written here.

    Parameters
    ----------
    seen
        How the files looked then; of no file before the first line.
    """

    steps: list[Step] = field(default_factory=list)
    latest: dict[str, Step] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    check: str = ""
    seen: Seen | None = None

    def take(self, step: Step, check: str) -> None:
        """Add a line."""
        self.steps.append(step)
        self.latest[step.fingerprint], self.check = step, check
        (self.waiting.add if step.step == RECEIVED else self.waiting.discard)(step.fingerprint)


class Admissions:
    """The admissions of a server.

    Parameters
    ----------
    keys
        The folder of the server's keys.
    now
        The time; now unless given.
    """

    def __init__(self, keys: Path, *, now: datetime | None = None) -> None:
        self._folder = keys / "public" / "nodes"
        self._file = LedgerFile(keys, "admissions", suffix=".log")
        self._now = now or datetime.now(UTC)
        self._known = _Known()

    def steps(self) -> list[Step]:
        """Return the lines of the log; raise `LedgerDamaged` with the first one that is not as it was written."""
        return [*self._read().steps]

    def latest(self) -> dict[str, Step]:
        """Return fingerprint -> the last step of its key."""
        return dict(self._read().latest)

    def _read(self) -> _Known:
        """Return what the log says; lines that were read are read again only if the files have changed since."""
        if self._file.seen(len(self._known.steps)) != self._known.seen:
            before, known = self._file.seen(0), _Known()
            for number, plain, check in sound_lines(self._file.read()):
                try:
                    known.take(Step(**plain), check)
                except TypeError:
                    raise LedgerDamaged(number, "is no step of an admission") from None
            known.seen = before._replace(lines=len(known.steps))
            self._known = known
        return self._known

    def receive(self, asked: Request) -> Step:
        """Record a request, unless its key is already known; an admitted key's successor takes its place.

        Raises
        ------
        UsageError
            If too many requests wait, or a key follows one that is not its client's present key.
        """
        with self._alone() as latest:
            if known := latest.get(asked.fingerprint):
                return self._rotated(known, asked)
            if len(self._known.waiting) >= MOST_WAITING:
                raise UsageError(f"{MOST_WAITING:,} requests wait already: approve or refuse some of them first")
            return self._write(Step(RECEIVED, asked.fingerprint, asked.name, -1, "", "", "", "", asked.key, asked.made))

    def approve(self, which: str, *, why: str = "", until: datetime | None = None) -> Step:
        """Approve a request that waits: its key gets a number, unless it is a client's already, and becomes a client's.

        Parameters
        ----------
        which
            The fingerprint, or its first groups.

        Raises
        ------
        UsageError
            If no such request waits.
        """
        with self._alone() as latest:
            known = _found(latest, which, RECEIVED)
            there = {int(path.stem): path for path in self._folder.glob("*.pub") if path.stem.isdecimal()}
            same = [number for number, path in there.items() if fingerprint_of(path.read_text()) == known.fingerprint]
            used = [*there, *(each.client for each in latest.values())]
            client = same[0] if same else max(used, default=-1) + 1
            end = until.astimezone(UTC).isoformat(timespec="seconds") if until else ""
            step = self._write(replace(known, step=APPROVED, client=client, why=why, until=end))
            self._write_key(step)
            return step

    def keys_before(self) -> dict[str, str]:
        """Return key -> fingerprint of all keys that were replaced by keys which they have signed."""
        steps, latest = self.steps(), self.latest()
        return {each.key: each.fingerprint for each in steps if each.key != latest[each.fingerprint].key}

    def _rotated(self, known: Step, asked: Request) -> Step:
        """Give an admitted client the key that its present key has signed; what is known, or was refused, stays."""
        if asked.key == known.key or known.step in (REFUSED, REVOKED, EXPIRED):
            return known
        new, old = asked.key.split(), known.key.split()
        follows = [word for word in new if word.startswith(FOLLOWS.decode())]
        signer = follows[0].removeprefix(FOLLOWS.decode()).partition(":")[0] if follows else ""
        present = listed_keys(known.key.encode())[0].key.hex()
        if known.step != APPROVED or signer != present or follows[1:] != old[2:]:
            raise UsageError(f"{known.fingerprint}: this key does not follow the present key of its client")
        step = self._write(replace(known, key=asked.key, made=asked.made, why="its key before has signed this key"))
        self._write_key(step)
        return step

    def _write_key(self, step: Step) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._folder / f"{step.client}.pub", f"{step.key.strip()}\n".encode())
        (self._folder / f"{step.client}.pub").chmod(0o644)

    def refuse(self, which: str, *, why: str) -> Step:
        """Refuse a request that waits; its key stays refused."""
        with self._alone() as latest:
            return self._write(replace(_found(latest, which, RECEIVED), step=REFUSED, why=why))

    def revoke(self, which: str, *, why: str) -> Step:
        """Revoke an approval: the server has no such client any more."""
        with self._alone() as latest:
            return self._end(_found(latest, which, APPROVED), REVOKED, why)

    def expire(self) -> list[Step]:
        """End each approval whose time is over; return these."""
        with self._alone() as latest:
            over = [
                each for each in latest.values() if each.step == APPROVED and each.until and self._is_over(each.until)
            ]
            return [self._end(each, EXPIRED, "its time is over") for each in over]

    def go_on_from(self, lines: bytes) -> int:
        """Append the steps by which another copy of this log is later; return their number. The latest step counts.

        Raises
        ------
        LedgerDamaged
            If a line of the copy is not as it was written.
        UsageError
            If the copy does not begin with the lines of this log, nor this log with those of the copy.
        """
        list(sound_lines(lines))
        with self._alone():
            here = self._file.read()
            if here.startswith(lines):
                return 0
            if not lines.startswith(here):
                raise UsageError("it is the log of another server, or not of this backup's past: name another copy")
            self._file.append(lines[len(here) :])
            before, latest = len(self._known.steps), self._read().latest.values()
            for each in latest:
                if each.step != APPROVED and each.client >= 0:
                    (self._folder / f"{each.client}.pub").unlink(missing_ok=True)
            for each in latest:
                if each.step == APPROVED:
                    self._write_key(each)
            return len(self._known.steps) - before

    def _is_over(self, until: str) -> bool:
        return datetime.fromisoformat(until) <= self._now

    def _end(self, known: Step, step: str, why: str) -> Step:
        (self._folder / f"{known.client}.pub").unlink(missing_ok=True)
        return self._write(replace(known, step=step, why=why))

    def _write(self, step: Step) -> Step:
        written = replace(step, when=self._now.isoformat(timespec="seconds"), who=_user())
        line = line_of(asdict(written), self._known.check)
        self._file.append(line, after=self._known.seen)
        self._known.take(written, check_of(line))
        self._known.seen = self._file.seen(len(self._known.steps))
        return written

    @contextmanager
    def _alone(self) -> Iterator[dict[str, Step]]:
        with self._file.alone():
            yield self._read().latest


def fingerprint_of(key: str) -> str:
    """Return the SHA-256 of a public key, or of the first one that it follows, in groups of four hexadecimal digits."""
    (listed,) = listed_keys(key.encode())
    return grouped(listed.first)


def grouped(key: bytes) -> str:
    """Return the SHA-256 of the bytes of a key as a fingerprint."""
    digits = sha256(key).hexdigest()
    return "-".join(digits[at : at + 4] for at in range(0, 32, 4))


def _found(latest: dict[str, Step], which: str, step: str) -> Step:
    found = [each for each in latest.values() if each.fingerprint.startswith(which.lower()) and each.step == step]
    if len(found) == 1 and which:
        return found[0]
    known = [each.step for each in latest.values() if which and each.fingerprint.startswith(which.lower())]
    said = f"it is {known[0]}" if known and not found else f"{len(found)} such keys are {step}"
    raise UsageError(f"{quoted(which)}: {said}; fedlearn admit lists the fingerprints")


def _is_latin(letter: str) -> bool:
    return unicodedata.name(letter, "").startswith("LATIN ") and not letter.isspace()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
