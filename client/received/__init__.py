"""What a server has sent to the node: the state that a message brings, and the arrays that none brings."""
