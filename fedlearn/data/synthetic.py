"""A data set that is not stored: its examples follow from a seed and a node, and are made when they are asked for.

A million nodes cost no more memory than their number, so the data set shows how a run grows; its accuracy says nothing
about real data. Each kind can be learned, and is alike on all nodes unless `alpha` is given:

- images: each class has 4 x 4 fields of color; an image shows the fields of its class, with noise.
- rows: each class has a center, and a row lies around the center of its class; without classes the target is a number,
  by a weighted sum of the features.
- tokens: each token is followed by one of four other tokens, or, now and then, by any token; the target is the next
  token.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedlearn.core.errors import SettingError
from fedlearn.core.seeding import rng_for
from fedlearn.data.data_spec import Examples, Rows, TableSchema
from fedlearn.data.dataset import Dataset, Made

Kind = Literal["images", "rows", "tokens"]

NODES = 10_000_000  # as many as `clients` may be
TEST, TEST_EXAMPLES = -1, 1000  # in place of a node: the test examples, on which no node trains
SIZES = {"images": 32, "rows": 20, "tokens": 20}
CLASSES = {"images": 10, "rows": 10, "tokens": 50}
LARGEST_IMAGE = 64  # pixels each way: the thousand test images are made at once
FIELDS = 4  # fields of an image, each way
FOLLOWERS = (0.6, 0.2, 0.1, 0.1)  # shares of the four tokens that may come next
JUMPS = 0.2  # share of tokens that do not depend on the token before, at a noise of 1


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options of `load`, on which alone the examples depend."""

    kind: Kind
    per_node: int
    size: int
    classes: int
    noise: float
    alpha: float | None
    seed: int


def load(
    data_dir: str = "",
    *,
    kind: Kind = "images",
    examples: Annotated[int, Field(ge=1, le=2000)] = 20,
    size: Annotated[int, Field(ge=0, le=1024)] = 0,
    classes: Annotated[int, Field(ge=0, le=1000)] | None = None,
    noise: Annotated[float, Field(ge=0, le=100)] = 1.0,
    alpha: Annotated[float, Field(ge=0.001, le=1e6)] | None = None,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Dataset:
    """Return the data set; `data_dir` is not used, and is there because every data set has it.

    Parameters
    ----------
    examples
        Number of training examples of each node; 1,000 more, of all classes alike, are for testing.
    size
        Pixels of an image each way, features of a row, letters of a text; 0: 32, 20, 20.
    classes
        Number of classes, or of tokens; by default 10, and 50 tokens. Rows with 0 have a number as target.
    noise
        How far examples of a class differ; at 1 clearly less than classes differ.
    alpha
        Each node's shares of the classes, or of the tokens that do not depend on the token before, are drawn from
        Dirichlet(alpha): a small alpha is skewed. None: all nodes are alike.
    seed
        Seed of the data, not of the run.
    """
    classes = CLASSES[kind] if classes is None else classes
    if kind == "images" and size > LARGEST_IMAGE:
        raise SettingError("data.options.size", size, f"images have at most {LARGEST_IMAGE} pixels each way")
    least = 0 if kind == "rows" else 2
    if classes < least or classes == 1:
        raise SettingError("data.options.classes", classes, f"{kind} need at least 2{'' if least else ', or 0'}")
    return _dataset(Recipe(kind, examples, size or SIZES[kind], classes, noise, alpha, seed))


@lru_cache(maxsize=2)
def _dataset(recipe: Recipe) -> Dataset:
    train = Examples(_rows_of(recipe, "inputs"), _rows_of(recipe, "targets"))
    test = examples_of(recipe, TEST)
    made = Made(recipe.per_node, again=partial(_dataset, recipe))
    common: dict[str, Any] = {"train": train, "test": test, "fingerprint": _fingerprint(recipe), "made": made}
    if recipe.kind == "rows":
        return Dataset.of_table("synthetic", schema=_schema(recipe), **common)
    if recipe.kind == "tokens":
        common |= {"vocabulary": recipe.classes}
    scale = {"mean": (0.5,) * 3, "std": (0.25,) * 3} if recipe.kind == "images" else {"mean": (), "std": ()}
    return Dataset("synthetic", num_classes=recipe.classes, **scale, **common)


def _schema(recipe: Recipe) -> TableSchema:
    bounds = {f"x{number}": (-1.0, 1.0) for number in range(recipe.size)}
    classes = tuple(str(number) for number in range(recipe.classes))
    return TableSchema("y", bounds, classes=classes, target_bounds=None if classes else (-1.0, 1.0))


def _fingerprint(recipe: Recipe) -> str:
    """Return the hash of the options and of some examples: another version of NumPy may draw other examples."""
    digest = blake2b(repr(recipe).encode(), digest_size=8)
    for node in (0, TEST):
        some = examples_of(recipe, node)
        digest.update(np.ascontiguousarray(some.inputs).data)
        digest.update(np.ascontiguousarray(some.targets).data)
    return digest.hexdigest()


# --- rows that are not stored -----------------------------------------------------------------------------------------


class MadeRows:
    """Stands for an array of all rows: has its shape and kind of numbers, and makes the rows that are asked for.

    Row i is the ``i % per_node``-th of node ``i // per_node``.
    """

    def __init__(self, recipe: Recipe, name: str) -> None:
        one: NDArray[Any] = getattr(examples_of(recipe, 0), name)
        self.shape: tuple[int, ...] = (NODES * recipe.per_node, *one.shape[1:])
        self.dtype, self.ndim = one.dtype, one.ndim
        self._recipe, self._name = recipe, name

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.shape[0]

    def __getitem__(self, rows: Rows) -> NDArray[Any]:
        """Return an array of these rows."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self)):
            raise IndexError(f"rows {rows.min()} to {rows.max()}: there are {len(self)}")
        nodes, places = np.divmod(rows, self._recipe.per_node)
        found = np.empty((len(rows), *self.shape[1:]), self.dtype)
        for node in np.unique(nodes).tolist():
            mine = nodes == node
            found[mine] = getattr(examples_of(self._recipe, node), self._name)[places[mine]]
        return found

    def __array__(self, *_: object, **__: object) -> NDArray[Any]:
        """Raise TypeError: all rows together may be more than memory holds."""
        raise TypeError(f"{len(self)} rows are made when they are asked for: take some of them, as [rows]")


def _rows_of(recipe: Recipe, name: str) -> NDArray[Any]:
    return cast(NDArray[Any], MadeRows(recipe, name))


@lru_cache(maxsize=4)  # inputs and targets of a node are asked for apart, and its batches in a row
def examples_of(recipe: Recipe, node: int) -> Examples:
    """Return the examples of a node; they depend on the arguments alone."""
    rng = rng_for(recipe.seed, purpose=f"synthetic/{recipe.kind}", node=node)
    count = TEST_EXAMPLES if node == TEST else recipe.per_node
    return _MAKERS[recipe.kind](recipe, rng, node, count)


def _drawn(recipe: Recipe, rng: np.random.Generator, node: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return classes, or tokens: of a node by its shares; of the test examples equally many of each."""
    if node == TEST:
        return (rng.permutation(math.prod(shape)) % recipe.classes).reshape(shape)
    shares = rng.dirichlet(np.full(recipe.classes, recipe.alpha)) if recipe.alpha else None
    return rng.choice(recipe.classes, shape, p=shares)


def _images(recipe: Recipe, rng: np.random.Generator, node: int, count: int) -> Examples:
    labels = _drawn(recipe, rng, node, (count,))
    fields = rng_for(recipe.seed, purpose="synthetic/fields").normal(size=(recipe.classes, FIELDS, FIELDS, 3))
    place = np.arange(recipe.size) * FIELDS // recipe.size
    images = rng.standard_normal((count, recipe.size, recipe.size, 3), np.float32)
    images *= recipe.noise
    images += fields.astype(np.float32)[labels][:, place][:, :, place]
    images *= 48
    images += 128
    return Examples(images.clip(0, 255, out=images).astype(np.uint8), labels)


def _rows(recipe: Recipe, rng: np.random.Generator, node: int, count: int) -> Examples:
    noise = recipe.noise * rng.normal(size=(count, recipe.size))
    common = rng_for(recipe.seed, purpose="synthetic/rows of all nodes")
    if recipe.classes:
        labels = _drawn(recipe, rng, node, (count,))
        centres = common.uniform(-0.7, 0.7, (recipe.classes, recipe.size))
        return Examples((centres[labels] + 0.3 * noise).clip(-1, 1), labels)
    rows = rng.uniform(-1, 1, (count, recipe.size))
    weights = common.normal(size=recipe.size) * np.sqrt(3 / recipe.size)
    return Examples(rows, np.tanh(rows @ weights + 0.1 * noise[:, 0]))


def _tokens(recipe: Recipe, rng: np.random.Generator, node: int, count: int) -> Examples:
    common = rng_for(recipe.seed, purpose="synthetic/followers")
    after = np.stack([common.permutation(recipe.classes) for _ in FOLLOWERS])
    texts = _drawn(recipe, rng, node, (count, recipe.size + 1))  # tokens that do not depend on the token before
    follows = rng.random(texts.shape) >= JUMPS * recipe.noise
    which = rng.choice(len(FOLLOWERS), texts.shape, p=FOLLOWERS)
    for place in range(1, recipe.size + 1):
        expected = after[which[:, place], texts[:, place - 1]]
        texts[:, place] = np.where(follows[:, place], expected, texts[:, place])
    return Examples(texts[:, :-1].astype(np.int32), np.ascontiguousarray(texts[:, 1:]))


_MAKERS: dict[Kind, Callable[[Recipe, np.random.Generator, int, int], Examples]] = {
    "images": _images,
    "rows": _rows,
    "tokens": _tokens,
}
