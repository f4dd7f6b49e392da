"""Virtual time: a grid around an engine's own, whose replies come when the nodes' devices have done their work.

The engine runs nodes as fast as it can and in any order; the grid holds their replies back until the virtual clock says
that they have arrived. That clock moves when the server waits, to the next arrival, and never by itself: no number of a
run depends on how fast the machine is.

A training is run when time would else pass its end, together with the next ones that end after it: so all workers have
something to do even where the server writes to one node at a time. What a node keeps changes when its reply arrives,
at whatever moment the node was run; a node that is stopped before that keeps what it kept.
"""
