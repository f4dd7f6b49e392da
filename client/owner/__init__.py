"""What the owner of a node decides: policy, peers, signed sets, guards, and which error texts leave the node."""
