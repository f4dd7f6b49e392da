"""Settings of data: which examples there are, and how they are spread over the nodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from fedlearn.config.fields import MaybeNumber, Options, Positive, Settings, SwitchOrName, TableOrPath
from fedlearn.config.marks import AlsoCalled, Flag, FreeToChange, Panel, ReadBy, ReadIf


class DataSettings(Settings):
    """Settings of the data: which examples there are, and which node has which of them.

    >>> DataSettings(partition="dirichlet", alpha=0.1).alpha
    0.1
    """

    dataset: Annotated[str, Flag("--dataset", "NAME", Panel.LEARNING), AlsoCalled({"dataset", "data"})] = Field(
        default="auto",
        description=(
            "Images: cifar10, digits; texts: topics; tables for tree models: california, diabetes, adult, or a "
            ".toml file that declares one; synthetic: made on demand, for any number of clients. Your own: a "
            "folder of pictures with one folder for each class; a .csv, .tsv or .parquet file (set "
            "data.options.target=COLUMN), .npz, or .json in LEAF's form; hub:NAME of the Hugging Face Hub; "
            "module:callable. auto: CIFAR-10, or digits if it can be neither found nor downloaded; for tree "
            "models california, else diabetes (auto-regression), and adult for classifiers."
        ),
    )
    options: Options = Field(
        default="",
        description=(
            "Keyword parameters of the function that reads the data set: target, inputs or without, groups of a "
            "table; delimiter, decimal, encoding of a CSV file; size of pictures; kind (images, rows, tokens), "
            "examples, size, classes, alpha, noise and seed of synthetic."
        ),
    )
    dir: Annotated[
        str,
        Flag("--data-dir", "FOLDER", Panel.LEARNING),
        FreeToChange(),
        ReadIf("data.dataset", ("auto", "auto-regression", "cifar10", "california", "adult"), or_foreign=True),
    ] = Field(
        default="",
        description=(
            "Folder with cifar10/train.parquet and test.parquet, or cifar-10-batches-py; california_housing.parquet, "
            "adult.parquet; else the variable FEDLEARN_DATA."
        ),
    )
    partition: Annotated[str, Flag("--partition", "NAME", Panel.LEARNING)] = Field(
        default="iid",
        description=(
            "iid (equal random shares), dirichlet (skewed labels), pathological (few classes on a client), shard "
            "(label shards), natural (each client has one group of the data set, such as a writer), linear, "
            "square, exponential (uneven sizes), {names}; a .csv or .json file with the client of each example; "
            "or module:name of a function or of a partitioner of flwr-datasets."
        ),
    )
    partition_options: Options = Field(
        default="",
        description=("Keyword parameters of the partitioner or function, such as group_size of grouped-natural-id."),
    )
    alpha: Annotated[Positive, ReadIf("data.partition", ("dirichlet",))] = Field(
        default=0.5, description="dirichlet: concentration; small is skewed."
    )
    classes_per_node: Annotated[int, Field(ge=1), ReadIf("data.partition", ("pathological",))] = Field(
        default=2, description="pathological: number of classes on each client."
    )
    shards_per_node: Annotated[int, Field(ge=1), ReadIf("data.partition", ("shard",))] = Field(
        default=2, description="shard: number of label-sorted shards on each client."
    )
    node_test_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0,
        description=(
            "Share of each client's examples that is held out of training, to measure the state if clients "
            "evaluate; at least one of two. 0: a client measures on its training examples; with natural "
            "partitions, on the group's test examples. Must be 0 with a private model, as its clients measure "
            "nothing."
        ),
    )
    validation_share: Annotated[
        MaybeNumber,
        Flag("--validation-share", "SHARE", Panel.LEARNING),
        AlsoCalled({"validation_split", "val_split", "val_share", "validation"}),
    ] = Field(
        default="",
        description=(
            "Share of the server's test rows that are validation rows: they choose the best round, an early stop "
            "and a sweep's best settings; the other test rows are measured once, after the last round. Training "
            "does not change. Empty: half of them in a sweep, and with stop.target or stop.patience; else 0, "
            "none."
        ),
    )
    scaling: Annotated[TableOrPath, ReadBy.TORCH] = Field(
        default="",
        description=(
            "Scale of columns of numbers for a network: mean and deviation from the folder of a run of statistics "
            "or dp-statistics, from a JSON file, or from a table COLUMN = [MEAN, DEVIATION]. Empty: a declared "
            "table by its ranges, other tables not at all."
        ),
    )
    transform: Annotated[str, ReadBy.TORCH] = Field(
        default="",
        description=(
            "module:name of a function of one example, as a tensor, for training, evaluation and prediction, such "
            "as torchvision's Resize or Normalize. It must not draw random numbers."
        ),
    )
    collate: Annotated[str, ReadBy.TORCH] = Field(
        default="",
        description=(
            "module:name of a function of a list of examples, as tensors of any sizes, that returns a batch for "
            "the module; after transform. For data of several sizes (from_mixed)."
        ),
    )
    augment: Annotated[SwitchOrName, ReadBy.TORCH] = Field(
        default=False,
        description=(
            "true: random horizontal flip and 4-pixel padded crop of training images. module:name: a function of "
            "one example, as a tensor, that draws random numbers, such as transforms of torchvision; only in "
            "training."
        ),
    )
    notice: Annotated[str, FreeToChange()] = Field(
        default="", description="Set by the program: the reason for using another data set than requested."
    )

    @field_validator("validation_share")
    @classmethod
    def _is_a_share(cls, value: str) -> str:
        if value and not 0 <= float(value) < 1:
            raise ValueError("Input should be from 0 to less than 1, or empty")
        return value

    @property
    def validates(self) -> bool:
        """Whether some of the test rows are validation rows."""
        return float(self.validation_share or 0) > 0
