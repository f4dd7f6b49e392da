"""A data set from arrays: images of any size and channels, rows, tokens, series; classes, numbers, sequences.

The kind of numbers says what an array means; it is never guessed from values:

- inputs: ``uint8`` are bytes, trained on as 0 to 1, so images unless they are flat; other integers are tokens; floats
  are numbers, taken as they are;
- targets: integers, truth values and texts are classes, floats are the numbers of a regression.
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from fedlearn.data.dataset import Dataset
from fedlearn.data.kept_arrays import kept
from fedlearn.data.reading import one_line_errors
from fedlearn.data.sources.channels import Channels
from fedlearn.data.sources.declared import TEST_SHARE, Declared
from fedlearn.data.sources.fitting import with_counted
from fedlearn.data.sources.hidden import with_hidden


@one_line_errors
def from_arrays(
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    groups_test: ArrayLike | None = None,
    name: str = "arrays",
    classes: int | Sequence[str] | None = None,
    vocabulary: int | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    channels: Channels | None = None,
    mask: ArrayLike | None = None,
    mask_test: ArrayLike | None = None,
    hides: bool = False,
    test_share: float = TEST_SHARE,
) -> Dataset:
    """Return a data set of arrays, or of values that NumPy makes arrays of: lists, data frames, tensors.

    The data set is kept once in the cache, under the hash of its content, and mapped into the memory of every process.

    Parameters
    ----------
    X
        Shape (n, ...): images (n, height, width, channels) or grey ones (n, height, width) as uint8; rows (n, features)
        or series (n, length, channels) as floats; tokens (n, length) as integers of 32 or 64 bits, from 0.
    y
        Shape (n,): classes as integers from 0 or as texts, or numbers as floats; (n, length): a sequence of classes, as
        the next letter at every place; (n, numbers), floats: several numbers at once.
    X_test, y_test
        The test examples; without them a fixed share is held out, the same for each seed of a run.
    groups, groups_test
        Shape (n,), texts or integers: the group of each example, for ``partition="natural"``.
    name
        Name in messages and results.
    classes
        Number of classes, or their names; else counted in `y` and `y_test`. Give it if every node brings its own data,
        and a node may lack a class.
    vocabulary
        Number of tokens; else the largest token and one.
    mean, std
        Mean and standard deviation of all channels, or of each, of bytes as scaled to 0 to 1; models subtract the mean
        and divide by the deviation. Unless given, 0.5 and 0.25 for bytes, and numbers are taken as they are: neither is
        measured, as no server could measure it.
    channels
        "first" for images (n, channels, height, width), "last" for (n, height, width, channels). Unless given, the last
        of three axes of an example are channels if they are 4 at most; if both ends are longer, a module gets the axes
        as they are.
    mask, mask_test
        The tokenizer's ``attention_mask`` of the tokens in `X` and `X_test`, of their shapes: 0 where a token is
        hidden. A module that takes an ``attention_mask`` gets it.
    hides
        Whether tokens below 0 are hidden ones already: -1 - t for a token t.
    test_share
        Share of the examples that is held out if there is no `X_test`.

    Raises
    ------
    UsageError
        In one line, with the array, the first wrong example, and the values that are allowed.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> faces = from_arrays(rng.integers(0, 256, (50, 28, 28), np.uint8), np.repeat(["ann", "bob"], 25), name="faces")
    >>> faces
    Dataset('faces', 40 + 10 examples of 28 x 28 x 1 uint8, 2 classes)
    >>> faces.spec.class_names
    ('ann', 'bob')
    """
    hides = hides or mask is not None
    declared = Declared(
        name, classes=classes, vocabulary=vocabulary, mean=mean, std=std, channels=channels, hides=hides
    )
    if mask is not None:
        X = with_hidden(X, mask, "X", declared.wrong)
    if mask_test is not None:
        X_test = with_hidden(X_test, mask_test, "X_test", declared.wrong)
    found = kept(name, *declared.checked((X, y, groups), (X_test, y_test, groups_test), test_share=test_share))
    return with_counted(found, classes=classes, vocabulary=vocabulary, has_test=X_test is not None)
