"""Looking at runs: a page, figures and tables of what their folders hold, on disk or live.

Everything here reads run folders, of runs that have ended, go on, or were killed, and changes nothing in them.
"""
