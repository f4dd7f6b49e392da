"""The client app: what runs on a node."""
