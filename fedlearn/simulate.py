"""``python -m fedlearn.simulate --clients 100``: the main job."""

import sys

if __name__ == "__main__":
    from fedlearn.__main__ import main

    main(["simulate", *sys.argv[1:]], program="python -m fedlearn")
