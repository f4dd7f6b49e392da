"""The features of a round: each with its checks, its part of the round, and what it adds to the results.

The core of the server imports none of them, and none imports another one; the core finds them by their names in
`fedlearn.plugins.tables.FEATURES`, and calls their moments (`server.feature`).
"""
