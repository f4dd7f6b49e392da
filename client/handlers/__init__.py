"""What a node does with the messages of a server: one function ``(request) -> Message`` for each type of message.

A handler that looks at examples does so inside ``with guarded(request)``. Its row in `fedlearn.plugins.tables.HANDLERS`
is all that the client app needs to call it.
"""
