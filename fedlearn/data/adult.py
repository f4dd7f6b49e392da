"""UCI Adult: does a person of the census of 1994 earn more than 50,000 dollars? 32,561 training rows, some incomplete.

Adult is looked for in the data folder (the setting ``data.dir``, else the environment variable FEDLEARN_DATA) as
``adult.parquet``, with the columns of the archive, words joined by underscores. The sampling weight ``fnlwgt`` is not
used, nor is ``education_num``, which says the same as ``education``. The official test rows are not needed: some
fifth of these rows is for testing (`tables.py`).

Categories are from the archive's documentation (``adult.names``), bounds from the questionnaire.

Source: Kohavi 1996, "Scaling up the accuracy of naive-Bayes classifiers: a decision-tree hybrid".
"""

from __future__ import annotations

from fedlearn.core.errors import DataNotFound
from fedlearn.data.column_files import read_columns
from fedlearn.data.data_folder import data_folder, identity
from fedlearn.data.data_spec import TableSchema
from fedlearn.data.dataset import Dataset
from fedlearn.data.encoded_tables import table_dataset

FILE = "adult.parquet"
COUNTRIES = """Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France Germany Greece
Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua
Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand Trinadad&Tobago
United-States Vietnam Yugoslavia"""
WORDS = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    "education": """Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc Assoc-acdm
    Bachelors Masters Prof-school Doctorate""",  # in order: trees that take codes as numbers gain by it
    "marital_status": """Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent
    Married-AF-spouse""",
    "occupation": """Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners
    Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces""",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native_country": COUNTRIES,
}
SCHEMA = TableSchema(
    target="income",
    bounds={
        "age": (16.0, 90.0),  # years
        "capital_gain": (0.0, 100_000.0),  # dollars
        "capital_loss": (0.0, 5_000.0),  # dollars
        "hours_per_week": (0.0, 100.0),
    },
    categories={name: tuple(words.split()) for name, words in WORDS.items()},
    classes=("<=50K", ">50K"),
)


def load(data_dir: str) -> Dataset:
    """Return Adult from the data folder.

    Raises
    ------
    DataNotFound
        If Adult is not there.
    """
    folder, looked_at = data_folder(data_dir, wanted=f"{FILE} is")
    path = folder / FILE if folder is not None else None
    if path is None or not path.is_file():
        raise DataNotFound(
            f"Adult was not found: {looked_at}. Put {FILE} into a folder and name that folder by data.dir "
            "(--data-dir) or FEDLEARN_DATA"
        )
    return table_dataset("adult", SCHEMA, identity(path), lambda: read_columns(path, SCHEMA), is_published=True)
