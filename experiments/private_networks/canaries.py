"""Sound trainings of DP-SGD, audited by canaries: how many prove more than they claim, of seeds fixed beforehand.

    python -m experiments.private_networks.canaries --seeds 200 --out runs/canaries

Digits, epsilon 2, delta 1e-5, confidence 0.999 each: of 200 sound trainings more than two are above the claim with a
probability below 0.002. Each result is a line of FOLDER/seeds.jsonl; the same command goes on from there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean

from experiments.private_networks.kept import ended
from fedlearn.auditing.records.canaries import audited


def main() -> None:
    """Audit the seeds that are missing, and print what all of them prove."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="seeds 1 to N")
    parser.add_argument("--out", type=Path, default=Path("runs/canaries"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "seeds.jsonl"
    done = {each["seed"]: each for each in ended(file)}
    for seed in range(1, given.seeds + 1):
        if seed not in done:
            result = audited(seed=seed)
            done[seed] = {"seed": seed, "measured": result.measured, "finds": result.finds, "said": str(result)}
            with file.open("a") as lines:
                lines.write(json.dumps(done[seed]) + "\n")
    found = [done[seed]["measured"] for seed in range(1, given.seeds + 1)]
    print(
        f"{sum(each > 2 for each in found)} of {len(found)} trainings above the claim of 2; at least {mean(found):.2f} "
        f"in the mean, {min(found):.2f} to {max(found):.2f}; {done[1]['finds']:.2f} of the noise would be found"
    )


if __name__ == "__main__":
    main()
