"""``python -m fedlearn``: all commands."""

if __name__ == "__main__":
    from fedlearn.cli import main

    main(program="python -m fedlearn")
