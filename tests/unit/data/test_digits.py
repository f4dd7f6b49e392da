from __future__ import annotations

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from fedlearn.data import digits


def test_every_fifth_example_of_each_class_is_held_out():
    labels = np.array([0] * 5 + [1] * 11 + [2] * 4)
    assert list(np.flatnonzero(digits.held_out(labels))) == [4, 9, 14]


def test_split_is_stratified_and_whole():
    found = digits.load()
    train, test = np.bincount(found.train.labels), np.bincount(found.test.labels)
    assert (len(found.train), len(found.test)) == (1442, 355)
    assert list(test) == list((train + test) // 5)
    assert found.num_classes == len(train) == 10


def test_images_are_of_the_shape_of_cifar10():
    found = digits.load()
    assert found.train.inputs.shape == (1442, 32, 32, 3)
    assert found.train.inputs.min() == 0
    assert found.train.inputs.max() == 255


def test_constants_are_those_of_the_training_images():
    found = digits.load()
    scaled = found.train.inputs / 255.0
    np.testing.assert_allclose(scaled.mean(axis=(0, 1, 2)), found.mean, atol=1e-4)
    np.testing.assert_allclose(scaled.std(axis=(0, 1, 2)), found.std, atol=1e-4)


def test_second_load_comes_from_the_cache(monkeypatch):
    first = digits.load()
    monkeypatch.setattr(digits, "_make", None)
    assert digits.load().fingerprint == first.fingerprint


def test_images_are_enlarged_as_pillow_does_it():
    images = load_digits().images[:200]
    for image, ours in zip(images, digits.enlarged(images), strict=True):
        grey = Image.fromarray(np.rint(image * (255 / 16)).astype(np.uint8))
        theirs = np.asarray(grey.resize((32, 32), Image.Resampling.BILINEAR))
        assert np.array_equal(ours, np.repeat(theirs[:, :, np.newaxis], 3, axis=2))
