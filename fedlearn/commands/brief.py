"""Commands of many flags: ``--help`` lists the usual ones in a line each, ``--help-all`` all with all that is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import typer
from typer.core import TyperCommand

USUAL = {
    "clients", "rounds", "cohort", "seed", "dataset", "partition", "model", "local_epochs", "batch_size", "lr",
    "strategy", "compression", "keep_ratio", "private", "epsilon", "secure_sums", "workers", "out", "resume", "config",
    "set_", "vary", "seeds", "dashboard", "quiet", "as_json", "superlink", "root_certificates", "keys", "own_data",
    "memory", "ledger", "policy", "device", "insecure", "help", "help_all",
}  # fmt: skip
"""Names of the parameters that a short help lists, besides those without which a command does not run."""
LONGEST = 96  # letters of a line of help
DEFAULT = " \\[default: "


class Brief(TyperCommand):
    """A command whose ``--help`` is short."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.append(
            click.Option(
                ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_print_all,
                help="Show every flag, with its full meaning.",
            )
        )  # fmt: skip

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usual flags alone, each with the beginning of its help, unless all were asked for."""
        if ctx.meta.get(__name__):
            super().format_help(ctx, formatter)
            return
        with _shortened(self.params):
            super().format_help(ctx, formatter)


def first_words(text: str) -> str:
    r"""Return the first sentence of a help, with its default; a longer one is cut, and ends in dots.

    >>> first_words("Passes over the data. Each takes time. \\[default: 5]")
    'Passes over the data. \\[default: 5]'
    """
    text, _, default = text.partition(DEFAULT)
    sentence = text.split(". ")[0].rstrip(".")
    end = "."
    if len(sentence) > LONGEST:
        sentence, end = sentence[:LONGEST].rsplit(" ", 1)[0].rstrip(",;:"), " ..."
    return f"{sentence}{end}{DEFAULT}{default}" if default else f"{sentence}{end}"


@contextmanager
def _shortened(parameters: list[click.Parameter]) -> Iterator[None]:
    flags = [each for each in parameters if isinstance(each, click.Option)]
    before = [(each, each.help, each.hidden) for each in flags]
    try:
        for each in flags:
            each.hidden = each.hidden or (each.name not in USUAL and not each.required)
            each.help = first_words(each.help or "")
        yield
    finally:
        for each, text, is_hidden in before:
            each.help, each.hidden = text, is_hidden


def _print_all(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        ctx.meta[__name__] = True
        typer.echo(ctx.get_help(), nl=False)
        ctx.exit()
