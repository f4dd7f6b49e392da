"""Docstrings of trees and privacy, as users of scikit-learn know them, say what the code says."""

from __future__ import annotations

import inspect
import sys
import warnings
from enum import Enum
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, is_classifier

from experiments.private_trees import as_printed
from fedlearn import auditing, privacy
from fedlearn import private_trees as trees
from fedlearn.private_trees import NotPrivateWarning
from fedlearn.private_trees.numbers.tree_plan import TreePlan

PUBLIC = [getattr(package, name) for package in (trees, as_printed, privacy) for name in package.__all__]
PUBLIC += [auditing.AuditResult, auditing.audit, auditing.audit_everything, TreePlan]
ESTIMATORS = [each for each in PUBLIC if inspect.isclass(each) and issubclass(each, BaseEstimator)]
METHODS = [getattr(each, name) for each in ESTIMATORS for name in ("fit", "predict")]
WITHOUT = (Enum, Warning)  # classes that nobody calls with arguments of ours
WITH_PARAMETERS = [each for each in [*PUBLIC, *METHODS] if not (inspect.isclass(each) and issubclass(each, WITHOUT))]


def sections(documented):
    """Return the lines of each section by its title, "" = what stands before the first one."""
    found, title = {"": []}, ""
    for line, below in pairwise([*inspect.cleandoc(documented.__doc__).splitlines(), ""]):
        if line and below == "-" * len(line):
            title = line
            found[title] = []
        elif line != "-" * len(title) or not title:
            found[title].append(line)
    return found


def entries(documented, title):
    """Return {name: what stands behind its colon} of a section; entries are the lines that are not indented."""
    found = {}
    for line in sections(documented).get(title, []):
        if line and not line[0].isspace():
            names, _, kind = line.partition(" : ")
            found |= dict.fromkeys(names.split(", "), kind)
    return found


def parameters(documented):
    named = inspect.signature(documented).parameters.values()
    return {p.name: p.default for p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name != "self"}


def title(documented):
    return documented.__qualname__


@pytest.mark.parametrize("documented", WITH_PARAMETERS, ids=title)
def test_parameters_are_those_of_the_signature_with_their_types(documented):
    described = entries(documented, "Parameters")
    assert list(described) == list(parameters(documented))
    assert all(described.values())


@pytest.mark.parametrize("documented", WITH_PARAMETERS, ids=title)
def test_defaults_are_those_of_the_signature(documented):
    described = entries(documented, "Parameters")
    for name, default in parameters(documented).items():
        _, said, value = described[name].partition(", default=")
        assert bool(said) == (default is not inspect.Parameter.empty), name
        assert not said or eval(value, vars(sys.modules[documented.__module__])) == default, name


@pytest.mark.parametrize("documented", PUBLIC, ids=title)
def test_an_example_is_given(documented):
    if not (inspect.isclass(documented) and issubclass(documented, Exception)):
        assert ">>> " in "\n".join(sections(documented)["Examples"])


@pytest.mark.parametrize("enumeration", [p for p in PUBLIC if inspect.isclass(p) and issubclass(p, Enum)], ids=title)
def test_attributes_of_an_enumeration_are_its_members(enumeration):
    assert list(entries(enumeration, "Attributes")) == list(enumeration.__members__)


def fitted(estimator):
    """Return it, fitted on data with names."""
    X = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (60, 2)), columns=["a", "b"])
    declared = {"noise": "seeded", "random_state": 0}
    if estimator is trees.PrivateSearch:
        tree = trees.DPRegressionTree(bounds=(0, 1), target_bounds=(0, 1))
        return estimator(estimator=tree, grid={"depth": [1]}, **declared).fit(X, X["a"])
    if is_classifier(estimator()):
        declared |= {"categories": [2, 2], "classes": ["no", "yes"]}
    else:
        declared |= {"bounds": (0, 1), "target_bounds": (0, 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return estimator(**declared).fit(X, np.where(X["a"], "yes", "no") if "classes" in declared else X["a"])


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=title)
def test_attributes_are_those_of_a_fitted_estimator(estimator):
    found = {name for name in vars(fitted(estimator)) if name.endswith("_") and not name.startswith("_")}
    assert set(entries(estimator, "Attributes")) == found


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=title)
def test_estimators_name_their_sources_and_what_fit_raises(estimator):
    assert sections(estimator)["References"]
    assert "BudgetExceeded" in entries(estimator.fit, "Raises")
