"""Boosted trees without a privacy promise: those of many nodes equal those of all records in one table.

``fedlearn simulate --model exact-boosting`` and ``fedlearn.run(model="exact-boosting")`` grow them of many nodes, `fit`
of one table. Both return what reads like a fitted estimator.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedlearn.data.dataset import Dataset
    from fedlearn.private_trees.exact.fitted_boosting import BoostedClassifier, BoostedRegressor


def fit(
    data: Dataset | Sequence[Dataset], *, seed: int | None = None, **options: Any
) -> BoostedClassifier | BoostedRegressor:
    """Return the boosted trees of tables in one place.

    Parameters
    ----------
    data
        A table that declares bounds and categories, as `fedlearn.data.from_frame` makes it; or several, one for each
        site. Rows for testing stay apart.
    seed
        Of the draws of rows and columns; the one that a run has by default unless given.
    options
        Those of the model, as ``model.options`` has them; see `fedlearn.private_trees.exact.exact_model.ExactBoosting`.

    Raises
    ------
    SettingError, UsageError
        If a table or an option does not fit.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedlearn.data import from_frame
    >>> drug = pd.DataFrame({"dose": [1.0, 2, 3, 4, 5, 6], "well": ["no", "no", "yes", "no", "yes", "yes"]})
    >>> table = from_frame(drug, target="well", classes=["no", "yes"], bounds={"dose": (0, 10)}, test_share=0)
    >>> trees = fit(table, max_iter=10, min_samples_leaf=1)
    >>> trees.predict(drug).tolist()
    ['no', 'no', 'yes', 'no', 'yes', 'yes']
    """
    from fedlearn.config import config_from
    from fedlearn.core.errors import UsageError
    from fedlearn.models import load_model

    tables = list(data) if isinstance(data, Sequence) else [data]
    if any(each.schema != tables[0].schema for each in tables):
        raise UsageError("the tables declare different columns: declare the same ones for each site")
    settings = {"clients": len(tables), **({} if seed is None else {"seed": seed})}
    model: Any = load_model("exact-boosting", tables[0].spec, json.dumps(options))
    planned = model.planned(config_from(settings))
    return planned.fitted(planned.fit([each.train for each in tables]))  # type: ignore[no-any-return]
