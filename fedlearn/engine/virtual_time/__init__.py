"""Virtual time: a grid around an engine's own, whose replies come when the nodes' devices have done their work.

The engine runs nodes as fast as it can and in any order; the grid holds their replies back until the virtual clock says
that they have arrived. That clock moves when the server waits, to the next arrival, and never by itself: no number of a
run depends on how fast the machine is.

A training is run before the clock passes its end, together with the next trainings that end after it: so all workers
are busy even where the server writes to one node at a time. A node's memory changes when its reply arrives, and not
when the node is run; a node that is stopped before its reply arrives keeps its old memory.
"""
