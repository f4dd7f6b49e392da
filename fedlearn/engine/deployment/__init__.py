"""Real clients over a network, on Flower's SuperLink and SuperNodes: the programs that docker-compose.yml starts."""
