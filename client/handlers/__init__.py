"""What a node does with the messages of a server: one function ``(visit) -> Message`` for each type of message.

A handler that looks at examples does so inside ``with guarded(visit)``. Its row in `fedlearn.plugins.HANDLERS` is
all that the client app needs to call it.
"""
