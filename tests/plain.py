"""Finds wording that stops a reader, in the documentation and in the help of the commands: part of ``make lint``.

    python -m tests.plain

Each pattern is a kind of riddle, with its replacement. A line that is an exception says
``<!-- plain -->``; fenced blocks are not looked at.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MEANT = "<!-- plain -->"
RIDDLES = {
    r"\bin rounds of selection\b|\b[Ee]very byte on the wire\b|\bin any order of arrival\b": "say what a user gets",
    r"\bby hand do\b|\bkeeps it, as\b": "say what the setting does",
    r"\bis in no \w+ and no\b|\bimports nothing of\b|\bexecutes none of\b": "use a verb with not or never",
    r"\bthat is paid for first\b": "charged before",
    r"\bplanted error\b|\bright where said\b|\bmost often taken for\b": "bug, precision, confused with",
    r"\bwhat was \w+, what was\b|\bwhat the run tells\b|\bwhat comes of it\b": "use a noun in place of what",
    r"\bby torch's own layers\b|\bCUDA's gigabytes\b|\bare as they are\b": "say it with a plain noun",
    r"\b[Ff]or (the|which) nodes (for which|is it)\b|\bthe nodes for which\b|\bnode's own would\b": "name the clients",
    r"\bgo on\b": "resume, continue",
    r"\bwas not measured\b": "give the number that is known, or leave it out",
    r"(^|[.] )(What|Who) (is|knows|has|cannot|comes)\b(?![^.]*\?)": "begin with a subject: a noun that acts",
    r"\bthat each has alone\b|--beside alone says\b": "only, identical",
    r"\bsigns no smaller\b|\bcommits none\b": "rejects",
    r"\b[Aa] line says so\b|[Ww]hat that usually means\b": "fedlearn warns, fedlearn prints",
    r"^#* ?How to \w": "a heading names the task, as people search for it",
    r"^How it was begun|^What the bytes buy|^Who has which data|^processor \d": "name the content: command, CPU time",
    r"\bSay what can be set\b|\bkeep their laws\b|\bSame seed, same bytes\.$|\bthat lies this many\b": "say the effect",
    r"\b[Ss]o many of them\b|\bmust stand so many\b": "minimum, at most, a number",
    r"\bnoise that protects no\b|; here for several\b": "say what the user gets",
    r"\bthat were asked for do not count\b|\b[Nn]o two final models are alike\b": "rejected; or leave it out",
    r"\bit should be a valid\b|\bit has no default: write\b|\bit cannot be (stored|loaded)[;:]": "name the expected",
    r"\b(an?|any|some|each) ([\w-]+ ){1,2}of (your|my|our|its|their) own\b(?! \w+ )": "your own, its own",
    r"\b\w+ of (mine|yours|ours)\b": "my, your, our",
    r"\b(goes|went|gone|going) on\b": "continues",
    r"(?<!beside )(?<!training )(?<!trains )(?<!`)\balone(?=[,.:)]| \||$)": "only",
    r"\bmade anew\b|\bmade again\b": "repeated",
    r"\b(that|those) which\b|\b[Ss]o (many|much)\b": "a noun, a number",
    r"\bwhat (comes|came|goes in|follows)\b": "a noun",
    r"\bwhat (it|they) (keeps?|holds?|sends?|sent|says?|has|have)\b": "a noun",
    r"\bwhat (is|was|were) (sent|told|kept|paid|guessed|lent|asked|printed|needed|meant|written)\b(?!\])": "a noun",
    r"\bno two \w+ are (alike|the same)\b": "differ",
    r"\b[Aa] line (\w+ )?(says|names|tells|warns)\b|\bone line says\b": "fedlearn warns, the error names",
    r"\bbeside (it|them|that|this)\b": "in addition, with it, in its folder",
    r"\bbytes both ways\b|\bway (up|down)\b|\bon its way\b": "uplink, downlink",
    r"\btells? of\b|\b(is|are|was|were|be) (told|lent)\b": "reveals, says, gets",
    r"\b(is|are|was|were|been) paid for\b|\bpays? for (it|all|what)\b": "is charged to the ledger",
    r", of which (some|a|an|it|they|one|each)\b|\bwhose every\b": "some of them, each",
    r"\bthrows? (away|out)\b|\bthrown (away|out)\b|\blet in\b": "discards, excludes, accepts",
    r"\bnothing (else )?(of|about) (any one|any of)\b|\bnothing of (it|them|a) \b|\bin no \w+ of\b": "only, never",
    r"\b[Ww]hether it pays\b|\bpays only\b|\bhardly pays\b": "the gain depends on",
    r"\bstands? (beside|behind|first)\b|\bstand(s|ing)? in the (settings|log|file|table|page)\b": "is in, has",
}
WORDS = {
    r"(?<![Ff]lower )(?<!\*)(?<!\| )\b[Nn]odes?\b(?!\*)": "client",
    r"\b([Ww]ith|[Ww]ithout|[Uu]nder|[Bb]y) secure sums\b|^#.*\b[Ss]ecure sums\b": "secure aggregation",
    r"\b[Tt]he gate\b": "validation",
    r"\b[Ff]old steps?\b": "update transform",
}
"""Words that pages do not use in sentences, and the glossary's words for them; code, links and Flower's nodes may."""


def riddles_in(text: str) -> Iterator[str]:
    """Yield a pattern that a text has, and what to write in its place."""
    for pattern, instead in RIDDLES.items():
        if found := re.search(pattern, text, re.MULTILINE):
            yield f"{found[0].strip()!r}: {instead}"


def words_in(text: str) -> Iterator[str]:
    """Yield a word of a sentence for which the glossary has another one, with the glossary's."""
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)|\b[\w.]*nodes?[._]\w+|\b\w+\.nodes\b", "", text)
    for pattern, instead in WORDS.items():
        if found := re.search(pattern, prose):
            yield f"{found[0].strip()!r}: {instead}, as the glossary says"


def lines() -> Iterator[tuple[str, str]]:
    """Yield each line of the documentation and of the help with its place."""
    yield from pages()
    yield from _helps()


def pages() -> Iterator[tuple[str, str]]:
    """Yield each line of the documentation outside of fenced blocks with its place."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if "generated" in page.parts or "api" in page.parts:
            continue
        text = re.sub(r"^(`{3,}).*?^\1", _emptied, page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for number, line in enumerate(text.splitlines(), start=1):
            yield f"{page.relative_to(ROOT)}:{number}", line


def _emptied(block: re.Match[str]) -> str:
    return "\n" * block[0].count("\n")


def _helps() -> Iterator[tuple[str, str]]:
    import typer

    from fedlearn.cli import app
    from fedlearn.config.names import field_of, setting_names

    for name, command in typer.main.get_command(app).commands.items():
        yield f"fedlearn {name} --help", " ".join((command.help or "").split())
        for option in command.params:
            yield f"fedlearn {name} {option.name}", getattr(option, "help", None) or ""
    for setting in setting_names():
        yield f"fedlearn settings {setting}", field_of(setting).description or ""


def main() -> int:
    """Print each riddle with its place; 1 if there is one."""
    found = [f"{place}: {riddle}" for place, line in lines() if MEANT not in line for riddle in riddles_in(line)]
    found += [f"{place}: {word}" for place, line in pages() if MEANT not in line for word in words_in(line)]
    print("\n".join(found), end="\n" * bool(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
