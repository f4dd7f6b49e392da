"""Statistics and regression of all records by sums: each analysis equals the one of all records in one table.

An analysis is a model: ``fedlearn simulate --model cox`` and ``fedlearn.run(model="cox")`` make it of many nodes, `fit`
of one table. Its answer has `summary()`, tables as data frames, LaTeX and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedlearn.data.dataset import Dataset
    from fedlearn.runs import analysis_answers


def fit(model: str, data: Dataset | Sequence[Dataset], **options: Any) -> analysis_answers.Answer:
    """Return the answer of an analysis of tables in one place.

    Parameters
    ----------
    model
        ``"describe"``, ``"glm"``, ``"kaplan-meier"`` or ``"cox"``.
    data
        A table that declares bounds and categories, as `fedlearn.data.from_frame` makes it; or several, one for each
        site. All rows are taken.
    options
        Those of the model, as ``model.options`` has them.

    Raises
    ------
    SettingError, UsageError
        If a table or an option does not fit.
    RunFailed
        If there is no answer, with the reason.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedlearn.data import from_frame
    >>> drug = pd.DataFrame({"dose": [1.0, 2, 3, 4, 5, 6], "well": ["no", "no", "yes", "no", "yes", "yes"]})
    >>> table = from_frame(drug, target="well", classes=["no", "yes"], bounds={"dose": (0, 10)})
    >>> fit("glm", table).table("coefficients")["coef"].round(4).tolist()
    [-4.2491, 1.214]
    """
    from fedlearn.core.errors import UsageError
    from fedlearn.data.private_examples import with_all_rows
    from fedlearn.models import load_model
    from fedlearn.statistics.analysis import Analysis

    tables = [with_all_rows(each) for each in (data if isinstance(data, Sequence) else [data])]
    analysis = load_model(model, tables[0].spec, json.dumps(options))
    if not isinstance(analysis, Analysis):
        raise UsageError(f"{model!r} is no analysis: choose describe, glm, kaplan-meier or cox")
    if any(each.schema != tables[0].schema for each in tables):
        raise UsageError("the tables declare different columns: declare the same ones for each site")
    return analysis.fit([each.train for each in tables])
