"""Client processes: the pool that forks them, their jobs, and the triggers that fire in them."""
