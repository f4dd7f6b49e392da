"""The account of a fit, checked before any data is read."""

from __future__ import annotations

import pytest

from fedlearn import private_trees
from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy import PrivacyAccountant
from fedlearn.private_trees.accounts import account_for


def test_more_than_is_left_is_refused_by_the_estimators_name_and_books_nothing():
    accountant = PrivacyAccountant(1.0)
    tree = private_trees.DPRegressionTree(accountant=accountant)
    assert account_for(tree, 1.0, by="a private tree") is accountant
    with pytest.raises(BudgetExceeded, match="DPRegressionTree"):
        account_for(tree, 1.5, by="a private tree")
    assert not accountant.spent.lines
