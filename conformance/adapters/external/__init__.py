"""Use a broker that runs already: its addresses, the commands of its owner, and the queues of a run there."""
