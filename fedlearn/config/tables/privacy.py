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
            "Differential privacy of a torch module. nodes: client-level, each client with all its records; "
            "clients clip their changes, and noise is added (privacy.trust says by whom). records: example-level, "
            "each record of a client, by clipped gradients of single examples and noise on their sum (DP-SGD; "
            "training.learner = dp-sgd). Empty: none; private models protect records by themselves."
        ),
    )
    epsilon: Annotated[Positive, Flag("--epsilon", "X", Panel.LEARNING), ReadBy.PRIVATE] = Field(
        default=1.0,
        description=(
            "Privacy budget of each client for the whole run, per record, add or remove one; with "
            "privacy.protects = nodes per client. Pure epsilon unless delta is set. A tree spends all of it."
        ),
    )
    delta: Annotated[float, Field(ge=0, lt=1), Flag("--delta", "X", Panel.LEARNING), PROTECTING] = Field(
        default=0.0,
        description=(
            "Probability at which epsilon may not hold; choose it well below 1 / records, or 1 / clients, such as 1e-6."
        ),
    )
    clip: Annotated[Positive, AlsoCalled({"max_grad_norm", "l2_norm_clip"}), PROTECTING] = Field(
        default=1.0,
        description=(
            "Largest L2 norm over all parameters together. nodes: of a client's change in a round; records: of "
            "the gradient of one example."
        ),
    )
    noise_multiplier: Annotated[NonNegative, AlsoCalled({"sigma"}), PROTECTING] = Field(
        default=0.0,
        description=(
            "Standard deviation of the noise / clip. 0: the smallest that meets epsilon and delta over all "
            "rounds, or steps, of the run."
        ),
    )
    clip_quantile: Annotated[float, Field(ge=0, lt=1), AlsoCalled({"target_unclipped_quantile"}), OF_NODES] = Field(
        default=0.0,
        description=(
            "Share of the clients whose change should be within the clipping norm, which starts at privacy.clip "
            "and adapts from round to round; the same noise covers it. 0: the norm is fixed."
        ),
    )
    population: Annotated[int, Field(ge=0), OF_NODES] = Field(
        default=0,
        description=(
            "For studies, in simulations: add the noise of a population of this number of clients, of which the "
            "simulated clients are a part. Results say 'as if of' it, and the epsilon for the simulated clients. "
            "0: the noise is for the simulated clients."
        ),
    )
    population_cohort: Annotated[int, Field(ge=0), AlsoCalled({"noise_cohort_size"}), OF_NODES] = Field(
        default=0,
        description="Clients of the population in a round; 0: the same share as rounds.cohort of clients.",
    )
    separation: Annotated[int, Field(ge=1), AlsoCalled({"min_separation"}), OF_NODES] = Field(
        default=1,
        description=(
            "Minimum number of rounds from one participation of a client to its next, which the client's memory "
            "enforces. Above 1 the noise of rounds is correlated (banded matrix factorization): less noise adds "
            "up in the model, without any assumption on sampling. fedlearn plan recommends a separation."
        ),
    )
    bands: Annotated[int, Field(ge=0), OF_NODES] = Field(
        default=0,
        description=(
            "Maximum number of bands of the matrix that correlates noise; the server keeps one row of noise fewer, 8 "
            "bytes a parameter each. 0: as many as privacy.separation allows, which is the least noise."
        ),
    )
    records: Annotated[int, Field(ge=0), AlsoCalled({"n_declared"}), OF_RECORDS] = Field(
        default=0,
        description=(
            "Declared number of records of a client, the same for all: steps of a round and the rate of batches "
            "follow from it, not from the true number. 0: in a simulation, the training set / clients."
        ),
    )
    participations: Annotated[int, Field(ge=0), PROTECTING] = Field(
        default=0,
        description=(
            "Maximum number of rounds for one client, which its ledger enforces; the noise is calibrated for it. "
            "0: rounds.total. For noise that clients add themselves."
        ),
    )
    noise: Literal["auto", "seeded", "secure"] = Field(
        default="auto",
        description=(
            "secure: protects, and differs in every run. seeded: same seed, same bytes, protects nobody. auto: "
            "seeded in a simulation, secure elsewhere."
        ),
    )
    trust: Annotated[Literal["central", "local", "distributed"], ReadBy.NOISE] = Field(
        default="local",
        description=(
            "Who adds the noise. local: each client, to its update. distributed: all clients of a sum together, "
            "each adds a share; private only under secure aggregation, which hides single updates. central: the "
            "server, to the sum of the clients (only for privacy.protects = nodes, and its default)."
        ),
    )
    shares: Annotated[Literal["gaussian", "skellam"], OF_NODES] = Field(
        default="gaussian",
        description=(
            "Kind of noise for privacy.trust = distributed. gaussian: discrete Gaussian numbers, with a tight "
            "account. skellam: sums are exactly of the same kind; needs 6 % more noise, as it is accounted by "
            "Renyi divergences, and a coarser grid."
        ),
    )
    public_sizes: Annotated[bool, ReadBy.PRIVATE] = Field(
        default=False,
        description=(
            "Make the clients' numbers of examples public: trees are weighed by them, and estimating them costs "
            "no budget. Results then say 2 epsilon, for a record that is replaced."
        ),
    )
