"""The commands; `fedlearn/cli.py` puts them together."""
