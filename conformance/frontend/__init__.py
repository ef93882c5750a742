"""What people use: the command line, the pytest plugin, progress, the doctor, and the trial of the suite itself."""
