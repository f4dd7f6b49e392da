"""Parts and columns of a data set that says nothing of their use: chosen by their kinds and names, and said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlearn.core.errors import UsageError
from fedlearn.data.dataset import Dataset
from fedlearn.data.naming import spelled
from fedlearn.data.sources.hidden import MASK, TOKENS

TRAIN, TESTS = "train", ("test", "validation", "valid", "val")
UNUSED = ("unsupervised", "dev")
FEW = 20  # classes that small data may have
INPUTS = ("image", "img", "input_ids")  # columns of `datasets` that are learned from, unless one column has pictures
TARGETS = ("label", "labels", "target")


def own_validation(parts: Mapping[Any, Any]) -> str | None:
    """Return the name of the part of validation rows; None where there is none beside a part for testing."""
    return next((each for each in TESTS[1:] if each in parts), None) if TESTS[0] in parts else None


def chosen_parts(parts: Mapping[Any, Any], name: str) -> tuple[Any, Any, tuple[str, ...]]:
    """Return the part to train on, the part for testing or None, and what is said of the choice."""
    if TRAIN not in parts:
        raise UsageError(
            f"data set {name!r}: it has no part 'train': give one of its parts, {', '.join(map(str, parts))}"
        )
    named = next((each for each in TESTS if each in parts), None)
    own = own_validation(parts)
    others = [str(each) for each in parts if each not in (TRAIN, named, own)]
    said = [f"part {named!r} is for testing"] * (named not in (None, TESTS[0]))
    return (
        parts[TRAIN],
        None if named is None else parts[named],
        (*said, *(f"part {each!r} is not used" for each in others)),
    )


def labeled_parts(parts: Mapping[Any, Any], name: str, target: str) -> tuple[Mapping[Any, Any], tuple[str, ...]]:
    """Return the parts without those for testing whose labels are all -1, as of a benchmark, and what is said of it."""
    if TRAIN not in parts:
        return parts, ()
    _, learned, _ = chosen_columns(parts[TRAIN], name, target)
    tests = [part for part in TESTS if part in parts and learned in parts[part].column_names]
    none = [part for part in tests if set(parts[part][learned]) == {-1}]
    said = tuple(f"part {part!r} is not used: its labels are all -1" for part in none)
    return {part: rows for part, rows in parts.items() if part not in none}, said


def chosen_columns(part: Any, name: str, target: str) -> tuple[list[str], str, tuple[str, ...]]:
    """Return the columns that are learned from, the column that is learned, and what is said of the choice."""
    features = dict(part.features)
    kinds = {column: type(kind).__name__ for column, kind in features.items()}
    named = [column for column, kind in kinds.items() if kind == "ClassLabel"]
    known = [column for column in TARGETS if column in features]
    learned = spelled(target, features) if target else next(iter(named if len(named) == 1 else known), "")
    if learned not in features:
        which = f"it has no column {learned!r}" if learned else "no column is the target for sure"
        raise UsageError(f"data set {name!r}: {which}: give (data, 'COLUMN') with one of {', '.join(features)}")
    pictures = [column for column, kind in kinds.items() if kind == "Image"]
    known = [column for column in INPUTS if column in features]
    rest = [column for column in features if column != learned]
    inputs = pictures if len(pictures) == 1 else known[:1] or rest
    if texts := [c for c in inputs if getattr(features[c], "dtype", "") in ("string", "large_string")]:
        how = f"from_hf(data, inputs=[...], target={learned!r}) names others; texts become tokens first"
        raise UsageError(f"data set {name!r}: its column {texts[0]!r} holds texts, which no model takes: {how}")
    used = [*inputs, MASK] if inputs == [TOKENS] else inputs
    left_out = [column for column in rest if column not in used]
    if target and not left_out:
        return inputs, learned, ()
    more = f", {', '.join(left_out[:10])} left out" if left_out else ""
    hidden = f", {MASK} kept" if MASK in used and MASK in rest else ""
    return inputs, learned, (f"learned: {learned}, from {', '.join(inputs[:10])}{hidden}{more}",)


def many_classes(found: Dataset) -> tuple[str, ...]:
    """Return a line if whole numbers may have been meant as numbers, not as classes."""
    if (
        found.num_classes < FEW
        or found.class_names
        or found.vocabulary
        or found.train.targets.ndim > 1
        or 2 * found.num_classes < len(found.train)
    ):
        return ()
    return (
        f"y holds integers, which are {found.num_classes:,} classes, on average of less than two examples each: give "
        "floats if they are numbers of a regression",
    )
