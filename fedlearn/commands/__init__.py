"""The commands, a file each; `fedlearn/cli.py` puts them together."""
