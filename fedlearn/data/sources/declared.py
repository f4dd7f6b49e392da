"""Examples from arrays: every check, and the facts that are counted unless a user gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError
from fedlearn.core.seeding import rng_for
from fedlearn.data.data_spec import Examples, Facts
from fedlearn.data.drawing import drawn, draws_by_itself, leaves_unfit_out, share_held_out
from fedlearn.data.naming import in_one_form
from fedlearn.data.sources.as_arrays import (
    are_pictures,
    array_of,
    as_float32,
    columns_of,
    in_order,
    named_columns,
    numbers_of,
)
from fedlearn.data.sources.channels import Channels, channels_of, said_to_stay
from fedlearn.data.sources.fitting import are_ignored, fitting_inputs, fitting_targets
from fedlearn.data.sources.hidden import all_shown

TEST_SHARE = 0.2
SPLIT_SEED = 20  # of the test split; fixed, so that runs of all seeds are tested on the same rows
BYTES_MEAN, BYTES_STD = 0.5, 0.25  # of bytes unless given: never measured on the examples
Given = tuple[Any, Any, Any]
"""X, y and groups, as a user gives them; X and y are None together, groups if there are none."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Facts that a user declares about arrays, as parameters of `from_arrays`; checks arrays, and makes examples."""

    name: str
    classes: int | Sequence[str] | None = None
    vocabulary: int | None = None
    mean: float | Sequence[float] | None = None
    std: float | Sequence[float] | None = None
    channels: Channels | None = None
    hides: bool = False
    """Whether the tokens have a mask: -1 - t for a token t that is hidden."""

    def checked(self, train: Given, test: Given, *, test_share: float) -> tuple[Examples, Examples, Facts]:
        """Return training and test examples, and the facts about them."""
        if self.channels is None and (said := self._channels_of(train[0])):
            rows, held_out, facts = replace(self, channels=said).checked(train, test, test_share=test_share)
            line = said_to_stay(train[0], "X") if said == "first" and not hasattr(train[0], "detach") else ""
            return rows, held_out, {**facts, **({"notice": line} if line else {})}
        has_test = self._has_test(test)
        as_given = train
        test = (self._in_order("X", train[0], test[0]), self._in_order("y", train[1], test[1]), test[2])
        if leaves_unfit_out():
            train, test = self._fitting(train), self._fitting(test) if has_test else test
        parts = [("X", "y", "groups", train), *([("X_test", "y_test", "groups_test", test)] if has_test else [])]
        inputs = [self._inputs(given[0], name) for name, _, _, given in parts]
        targets = [self._targets(given[1], name, x) for (_, name, _, given), x in zip(parts, inputs, strict=True)]
        named, class_names = self._classes(targets)
        groups, group_names = self._groups([given[2] for *_, given in parts])
        for (x_name, y_name, g_name, _), x, y, g in zip(parts, inputs, named, groups, strict=True):
            self._same_length(x_name, x, y_name, y)
            self._same_length(x_name, x, g_name, g)
        self._alike("X", "X_test", inputs)
        self._alike("y", "y_test", named)
        examples = [Examples(x, y, g) for x, y, g in zip(inputs, named, groups, strict=True)]
        if not has_test:
            examples = list(self._split(examples[0], test_share))
        vocabulary = self._vocabulary(inputs, named)
        mean, std = self._normalized_by(inputs[0])
        facts = {
            "num_classes": self._count(named, class_names, vocabulary), "mean": mean, "std": std,
            "vocabulary": vocabulary, "hides": self.hides, "class_names": class_names, "group_names": group_names,
            **named_columns(columns_of(as_given[0])), **_named_targets(as_given[1], targets[0]),
        }  # fmt: skip
        return examples[0], examples[1], facts

    def wrong(self, text: str) -> UsageError:
        """Return an error with the name of the data set."""
        return UsageError(f"data set {self.name!r}: {text}")

    def _has_test(self, test: Given) -> bool:
        if (test[0] is None) != (test[1] is None) or (test[0] is None and test[2] is not None):
            raise self.wrong("give X_test and y_test (and then groups_test), or neither")
        return test[0] is not None

    def _in_order(self, name: str, train: Any, test: Any) -> Any:
        """Return a data frame of test examples with its columns in the order of the training examples."""
        try:
            return in_order(train, test)
        except ValueError as error:
            raise self.wrong(f"{name}_test {error} of {name}: name them alike") from None

    def _fitting(self, given: Given) -> Given:
        """Return the rows that are as declared: where records are private, another one is left out."""
        X, y = numbers_of(given[0], "X", self.wrong), numbers_of(given[1], "y", self.wrong)
        self._same_length("X", X, "y", y)
        X = X.astype(np.float32) if columns_of(given[0]) else X
        tokens = all_shown(X) if self.hides else X
        fits = fitting_inputs(tokens, self.vocabulary) & fitting_targets(y, self.classes or self.vocabulary)
        return X[fits], y[fits], None if given[2] is None else np.asarray(given[2])[fits]

    def _inputs(self, given: Any, name: str) -> NDArray[Any]:
        array = numbers_of(given, name, self.wrong)
        if array.dtype.kind == "U":
            raise self.wrong(f"{name} holds texts: give tokens, as integers from 0")
        if array.dtype.kind == "b":
            array = array.astype(np.float32)
        if array.dtype.kind in "iu" and array.dtype != np.uint8 and columns_of(given):
            array = as_float32(array, name, self.wrong)  # the columns of a table, not tokens
        if array.dtype.kind in "iu" and array.dtype != np.uint8:
            self._check_tokens(array, name)
        if array.dtype.kind in "iu" and array.dtype != np.uint8:
            self._check_range(all_shown(array) if self.hides else array, name, "token", 2**31)
            array = array.astype(np.int32)
        if array.ndim == 1:
            array = array[:, np.newaxis]
        if self.channels == "first":
            if array.ndim != 4:
                raise self.wrong(
                    f"{name} has shape {array.shape}: channels='first' is for (n, channels, height, width)"
                )
            array = np.moveaxis(array, 1, -1)
        elif array.ndim == 3 and array.dtype == np.uint8:
            array = array[..., np.newaxis]
        return np.ascontiguousarray(array)

    def _channels_of(self, X: Any) -> Channels | None:
        if X is None or columns_of(X) or are_pictures(X):
            return None
        return channels_of(X, "X", self.wrong, are_tensors=hasattr(X, "detach"))

    def _check_tokens(self, array: NDArray[Any], name: str) -> None:
        """Refuse integers that may be no tokens: of 16 bits, as sound and pictures, or with more than two axes."""
        if self.vocabulary or self.hides:
            return
        if array.ndim > 2:
            shape = f"{name} holds {array.dtype} of shape {array.shape}, and tokens are (n, length)"
            raise self.wrong(
                f"{shape}: give pictures as uint8, numbers as floats, {name}.astype('float32'), or say vocabulary="
            )
        if array.dtype.itemsize == 2:
            numbers = f"{name}.astype('float32') / 32768"
            raise self.wrong(
                f"{name} holds {array.dtype}, as sound and pictures of 16 bits do: give numbers as floats, {numbers}; "
                f"tokens as {name}.astype('int32'), or say vocabulary="
            )

    def _targets(self, given: Any, name: str, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the targets: images to be learned with their channels last; a column (n, 1) as (n,).

        One-hot rows are refused: they are neither numbers of a regression nor classes at several places.
        """
        array = numbers_of(given, name, self.wrong)
        if inputs.ndim == array.ndim == 4:
            if self.channels == "first":
                array = np.ascontiguousarray(np.moveaxis(array, 1, -1))
            elif array.shape[2:] == inputs.shape[1:3] != array.shape[1:3]:
                found = f"{name} has shape {array.shape}"
                raise self.wrong(f"{found}: if that is (n, channels, height, width), say channels='first'")
        while array.ndim > 1 and array.shape[-1] == 1 and (array.ndim == 2 or array.dtype.kind != "f"):
            array = array[..., 0]
        if self.classes is None and _is_one_hot(array):
            meant = "classes=0 if they are numbers" if array.dtype.kind == "f" else "classes=2 if each place is a class"
            raise self.wrong(
                f"{name} holds one-hot rows, of shape {array.shape}: give the classes, {name}.argmax(1), or {meant}"
            )
        return array

    def _check_range(self, array: NDArray[Any], name: str, word: str, stop: int) -> None:
        flat = array.reshape(len(array), -1)
        wrong = (flat < 0) | (flat >= stop)
        if wrong.any():
            row, column = (int(place[0]) for place in np.nonzero(wrong))
            raise self.wrong(f"{name}: example {row} holds {flat[row, column]}: a {word} is from 0 to {stop - 1}")

    def _classes(self, targets: list[NDArray[Any]]) -> tuple[list[NDArray[Any]], tuple[str, ...]]:
        """Return targets in which a class is its number, and the names of the classes, if they have names."""
        names = () if self.classes is None or isinstance(self.classes, int) else tuple(map(in_one_form, self.classes))
        if len(set(names)) != len(names):
            raise self.wrong("classes: a name is given twice")
        if len({target.dtype.kind == "f" for target in targets}) > 1:
            raise self.wrong(
                f"y holds {targets[0].dtype} and y_test {targets[1].dtype}: give both as classes or as numbers"
            )
        targets = [_with_words(target, names) for target in targets]
        if any(target.dtype.kind == "U" for target in targets):
            targets = [in_one_form_each(target.astype(str)) for target in targets]
            names = names or tuple(
                np.unique(np.concatenate([target.astype(str).ravel() for target in targets])).tolist()
            )
            return [
                self._coded(target, names, part) for part, target in zip(("y", "y_test"), targets, strict=False)
            ], names
        if targets[0].dtype.kind == "f":
            if self.classes is not None and self.classes != 0:
                raise self.wrong(f"y holds numbers ({targets[0].dtype}) and classes are given: give y as integers")
            return targets, ()
        for part, target in zip(("y", "y_test"), targets, strict=False):
            stop = len(names) or (self.classes if isinstance(self.classes, int) else 2**31)
            self._check_range(np.where(are_ignored(target), 0, target), part, "class", stop)
        return [target.astype(np.int64) for target in targets], names

    def _coded(self, target: NDArray[Any], names: tuple[str, ...], part: str) -> NDArray[np.int64]:
        place = {name: code for code, name in enumerate(names)}
        codes = np.array([place.get(value, -1) for value in target.ravel().tolist()], np.int64).reshape(target.shape)
        if (codes < 0).any():
            row = int(np.flatnonzero((codes < 0).reshape(len(codes), -1).any(axis=1))[0])
            raise self.wrong(f"{part}: example {row} is {str(target[row])!r}, which is none of the classes {names}")
        return codes

    def _count(self, targets: list[NDArray[Any]], names: tuple[str, ...], vocabulary: int) -> int:
        """Return the number of classes: given, or counted; for sequences of tokens it is the vocabulary."""
        if targets[0].dtype.kind == "f":
            return 0
        given = self.classes if isinstance(self.classes, int) else len(names)
        count = given or (vocabulary if targets[0].ndim > 1 else 0) or max(int(target.max()) for target in targets) + 1
        if count < 2:
            raise self.wrong("y holds one class: there must be two, or give their number by classes=")
        return count

    def _vocabulary(self, inputs: list[NDArray[Any]], targets: list[NDArray[Any]]) -> int:
        if inputs[0].dtype != np.int32:
            return 0
        inputs = [all_shown(array) for array in inputs] if self.hides else inputs
        for name, array in zip(("X", "X_test"), inputs, strict=False):
            self._check_range(array, name, "token", self.vocabulary or 2**31)
        about_tokens = [target for target in targets if target.dtype == np.int64 and target.ndim > 1]
        return self.vocabulary or max(int(array.max()) for array in [*inputs, *about_tokens]) + 1

    def _groups(self, given: list[Any]) -> tuple[list[NDArray[np.int64] | None], tuple[str, ...]]:
        """Return the group of each example, from 0, and the names of the groups unless these are 0, 1, 2, ..."""
        if given[0] is None and any(each is not None for each in given):
            raise self.wrong("groups_test is given, and groups is not")
        arrays = [None if each is None else array_of(each, "groups", self.wrong) for each in given]
        arrays = [a if a is None or a.dtype.kind != "U" else in_one_form_each(a) for a in arrays]
        known = [array for array in arrays if array is not None]
        if not known:
            return [None] * len(given), ()
        if any(array.dtype.kind == "f" or array.ndim != 1 for array in known):
            raise self.wrong("groups must be texts or integers, one for each example")
        names = np.unique(np.concatenate(known))
        codes = [None if array is None else np.searchsorted(names, array).astype(np.int64) for array in arrays]
        plain = names.dtype.kind != "U" and np.array_equal(names, np.arange(len(names)))
        return codes, () if plain else tuple(str(name) for name in names)

    def _same_length(self, name: str, array: NDArray[Any], other_name: str, other: NDArray[Any] | None) -> None:
        if other is not None and len(array) != len(other):
            raise self.wrong(f"{name} has {len(array)} examples and {other_name} {len(other)}: give one for each")

    def _alike(self, name: str, test_name: str, arrays: list[NDArray[Any]]) -> None:
        kinds = [f"{array.dtype} of shape (n{''.join(f', {side}' for side in array.shape[1:])})" for array in arrays]
        if len(set(kinds)) > 1:
            raise self.wrong(f"{name} is {kinds[0]} and {test_name} {kinds[1]}")

    def _split(self, examples: Examples, test_share: float) -> tuple[Examples, Examples]:
        """Return the examples that are trained on, and the examples that are held out; each in their order."""
        if not 0 < test_share < 1:
            raise self.wrong(f"test_share = {test_share}: it must lie between 0 and 1, or give X_test")
        if not share_held_out(test_share):
            return examples, examples.at(slice(0, 0))
        if draws_by_itself():
            is_test = drawn(examples, seed=SPLIT_SEED, purpose="test split") < test_share
            return examples.at(np.flatnonzero(~is_test)), examples.at(np.flatnonzero(is_test))
        if len(examples) < 2:
            raise self.wrong("one example cannot be split into training and test: give X_test")
        order = rng_for(SPLIT_SEED, purpose="test split").permutation(len(examples))
        held_out = min(max(1, round(test_share * len(examples))), len(examples) - 1)
        return examples.at(np.sort(order[held_out:])), examples.at(np.sort(order[:held_out]))

    def _normalized_by(self, inputs: NDArray[Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return mean and deviation of each channel, or one of all; empty if the inputs are taken as they are."""
        is_bytes, channels = inputs.dtype == np.uint8, inputs.shape[-1] if inputs.ndim > 2 else 1
        if inputs.dtype == np.int32 or (not is_bytes and self.mean is None and self.std is None):
            return (), ()
        defaults = (BYTES_MEAN, BYTES_STD) if is_bytes else (0.0, 1.0)
        mean = _of_each(defaults[0] if self.mean is None else self.mean, channels)
        std = _of_each(defaults[1] if self.std is None else self.std, channels)
        allowed = {channels, inputs.shape[-1]}
        if len(mean) not in allowed or len(std) not in allowed or not min(std) > 0:
            raise self.wrong(
                f"mean and std: one number, or one for each of the {max(allowed)} channels; std is above 0"
            )
        return mean, std


def _named_targets(given: Any, targets: NDArray[Any]) -> Facts:
    """Return the names of several targets as a fact, where they are the columns of a data frame."""
    names = named_columns(columns_of(given)).get("feature_names", ())
    return {"target_names": names} if names and targets.shape[1:] == (len(names),) else {}


def in_one_form_each(texts: NDArray[Any]) -> NDArray[Any]:
    """Return texts in Unicode's composed form; texts of ASCII alone are returned as they are."""
    found, places = np.unique(texts, return_inverse=True)
    composed = [in_one_form(text) for text in found.tolist()]
    return texts if composed == found.tolist() else np.array(composed)[places].reshape(texts.shape)


def _with_words(target: NDArray[Any], names: Sequence[str]) -> NDArray[Any]:
    """Return truth values as the classes that are named after them, "true" and "false" in any letters."""
    words = {name.lower(): name for name in names}
    is_named = target.dtype.kind == "b" and {"true", "false"} <= words.keys()
    return np.where(target, words["true"], words["false"]) if is_named else target


def _is_one_hot(array: NDArray[Any]) -> bool:
    """Return whether each row is zeros with a single 1, and not all rows have it in the same place."""
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        return False
    for rows in (array[:100], array):  # most arrays are told apart by their first rows
        if not ((rows == 0) | (rows == 1)).all() or not (rows.sum(1) == 1).all():
            return False
    return len(np.unique(array.argmax(1))) > 1


def _of_each(given: float | Sequence[float], channels: int) -> tuple[float, ...]:
    return tuple(float(each) for each in given) if isinstance(given, Sequence) else (float(given),) * channels
