"""Run a sweep, or go on with it: ``python -m experiments.sweeps PLAN.toml --out FOLDER``.

All runs share one engine whose workers stay (`WarmEngine`), so that none of them waits for imports. A run that has
ended is not run again, and one that was killed goes on from its latest round: after a kill at any moment the same
command ends with the same tables. More seeds, points or rounds may be added to a sweep that has run.

```text
FOLDER/
├── sweep.toml      what was asked for; itself a plan that --out FOLDER goes on with
├── runs.csv        one row a run, in the order of the plan
├── rounds.csv      one row a run and round
├── points.csv      one row a point: mean and sample standard deviation over seeds
└── runs/NAME/      the run folders
```
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.sweeps.command import parser_of, run_command


def main(arguments: Sequence[str] | None = None) -> None:
    """Run any plan; draw nothing."""
    parser = parser_of("experiments.sweeps", __doc__)
    parser.add_argument("plan", type=Path, help="TOML file; experiments/sweeps/plan.py says what it holds")
    run_command(parser, arguments=arguments)


if __name__ == "__main__":
    main()
