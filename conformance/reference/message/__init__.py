"""One message: its encoded sections, its time to live, and the ids that were seen before."""
