"""The way down: the state in fewer bytes, by a chain of codecs or as a correction to an anchor that nodes keep."""
