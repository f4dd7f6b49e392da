"""Look at runs: a page, figures and tables of their folders, on disk or live.

All modules here read run folders, of runs that have ended, go on, or were killed, and change no file in them.
"""
