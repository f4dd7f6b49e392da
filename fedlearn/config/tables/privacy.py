"""Settings of differential privacy."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedlearn.config.fields import NonNegative, Positive, Settings
from fedlearn.config.marks import AlsoCalled, Flag, Panel, ReadBy, ReadIf

PROTECTING = ReadIf("privacy.protects", ("nodes", "records"))
OF_RECORDS = ReadIf("privacy.protects", ("records",))
OF_NODES = ReadIf("privacy.protects", ("nodes",))


class PrivacySettings(Settings):
    """Settings of differential privacy: what a record may lose."""

    protects: Annotated[
        Literal["", "nodes", "records"], Flag("--private", "WHOM", Panel.LEARNING), AlsoCalled({"dp"})
    ] = Field(
        default="",
        description=(
            "What the training of a torch module protects. nodes: each node with all its records, by changes that the "
            "node clips, and noise (privacy.trust says whose). records: each record of a node, by "
            "gradients of single examples that are clipped, and noise on their sum (DP-SGD; training.learner = "
            "dp-sgd). Empty: nothing; private models protect records by themselves."
        ),
    )
    epsilon: Annotated[Positive, Flag("--epsilon", "X", Panel.LEARNING), ReadBy.PRIVATE] = Field(
        default=1.0,
        description=(
            "Budget of each node for the whole run, per record, add or remove one, or of the run per node (privacy."
            "protects = nodes); pure epsilon unless delta is said. A tree spends all of it."
        ),
    )
    delta: Annotated[float, Field(ge=0, lt=1), Flag("--delta", "X", Panel.LEARNING), PROTECTING] = Field(
        default=0.0,
        description="Probability at which epsilon may not hold: far below 1 / records, or 1 / nodes, as 1e-6.",
    )
    clip: Annotated[Positive, AlsoCalled({"max_grad_norm", "l2_norm_clip"}), PROTECTING] = Field(
        default=1.0,
        description=(
            "Largest L2 norm over all parameters together. nodes: of a node's change in a round; records: of the "
            "gradient of one example."
        ),
    )
    noise_multiplier: Annotated[NonNegative, AlsoCalled({"sigma"}), PROTECTING] = Field(
        default=0.0,
        description=(
            "Standard deviation of the noise / clip. 0: the smallest that keeps to epsilon and delta over all "
            "rounds, or steps, of the run."
        ),
    )
    clip_quantile: Annotated[float, Field(ge=0, lt=1), AlsoCalled({"target_unclipped_quantile"}), OF_NODES] = Field(
        default=0.0,
        description=(
            "Share of the nodes whose change is to be within the clipping norm, which follows it from round to round, "
            "beginning with privacy.clip; what it learns is paid for by the same noise. 0: the norm is fixed."
        ),
    )
    population: Annotated[int, Field(ge=0), OF_NODES] = Field(
        default=0,
        description=(
            "For studies, in simulations: the noise is that of a population of so many nodes, these a few of them. "
            "Results say 'as if of' it, and what is left for these nodes. 0: the noise is for these nodes."
        ),
    )
    population_cohort: Annotated[int, Field(ge=0), AlsoCalled({"noise_cohort_size"}), OF_NODES] = Field(
        default=0,
        description="Nodes of the population in a round; 0: the share of it that rounds.cohort is of clients.",
    )
    separation: Annotated[int, Field(ge=1), AlsoCalled({"min_separation"}), OF_NODES] = Field(
        default=1,
        description=(
            "Fewest rounds from one participation of a node to its next, which its own memory enforces. Above 1 the "
            "noise of rounds is correlated (banded matrix factorization): less of it adds up in the model, without any "
            "assumption on sampling. fedlearn plan says which separation pays."
        ),
    )
    records: Annotated[int, Field(ge=0), AlsoCalled({"n_declared"}), OF_RECORDS] = Field(
        default=0,
        description=(
            "Declared number of records of a node, the same for all: steps of a round and the rate of batches follow "
            "from it, and not from how many there are. 0: in a simulation, the training set / clients."
        ),
    )
    participations: Annotated[int, Field(ge=0), PROTECTING] = Field(
        default=0,
        description=(
            "Most rounds in which one node takes part, which its ledger enforces: the noise is calibrated for so many. "
            "0: rounds.total. For noise that nodes add themselves."
        ),
    )
    noise: Literal["auto", "seeded", "secure"] = Field(
        default="auto",
        description=(
            "secure: protects, never twice the same. seeded: same seed, same bytes, protects nobody. auto: seeded in "
            "a simulation, secure elsewhere."
        ),
    )
    trust: Annotated[Literal["central", "local", "distributed"], ReadBy.NOISE] = Field(
        default="local",
        description=(
            "Whose noise protects. local: each node's own, on what it sends. distributed: that of all nodes of a sum "
            "together, each adds a share; private only under secure sums, where nobody sees what one node sends. "
            "central: the server's, on the sum of the nodes (the default with privacy.protects = nodes, and for "
            "nothing else)."
        ),
    )
    shares: Annotated[Literal["gaussian", "skellam"], OF_NODES] = Field(
        default="gaussian",
        description=(
            "Which noise the shares of privacy.trust = distributed are: gaussian: discrete Gaussian numbers, of the "
            "tight account. skellam: sums are of the same kind exactly; a promise takes 6 % more noise, as it is "
            "accounted by Renyi divergences, and a coarser grid."
        ),
    )
    public_sizes: Annotated[bool, ReadBy.PRIVATE] = Field(
        default=False,
        description=(
            "Everybody knows how many examples a node holds: trees are weighed by it, and no budget goes to "
            "estimating it. Results then say 2 epsilon, for a record that is replaced."
        ),
    )
