"""The node's part in features of a round, of which the handlers of messages know nothing else.

No handler imports one, and none imports another one; they are found by their names in
`fedlearn.plugins.tables.NODE_FEATURES`, and their moments are called (`client.node_feature`).
"""
