"""One trial: its jobs and clients, its restarts and faults, and what they leave behind."""
