"""What people use: the command line, the pytest plugin, progress and the doctor."""
