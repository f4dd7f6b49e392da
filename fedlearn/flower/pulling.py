"""The parts of a message, which Flower pulls one by one, asked for again sooner than Flower does.

Written for flwr 1.41. `missing` says which of the names Flower has moved.
"""

from __future__ import annotations

PULLS = ("pull_objects", "pull_and_inflate_object_from_tree")  # functions with patient defaults

try:
    from flwr.supercore.inflatable import inflatable_utils

    missing = ", ".join(name for name in PULLS if not hasattr(inflatable_utils, name))
except ImportError as error:  # Flower has moved something
    missing = str(error)

FIRST_PULL, LONGEST_PULL = 0.02, 0.5  # seconds until a part of a message that is not there yet is asked for again


def pull_impatiently() -> None:
    """Ask again soon for parts of messages that are still on their way; Flower waits 1 s, then 2, 4, 8.

    A message is announced before its parts have come, so that nearly every part is asked for too early. Flower gives up
    after some tries or some minutes; as tries follow sooner here, the minutes alone count.
    """
    shorter = {"initial_backoff": FIRST_PULL, "backoff_cap": LONGEST_PULL, "max_tries_per_object": None}
    for name in PULLS:
        function = getattr(inflatable_utils, name)
        function.__kwdefaults__ = {**function.__kwdefaults__, **shorter}
