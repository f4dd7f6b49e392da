"""Experiments on private trees: results that papers print, beside ours."""
