"""Start a broker as processes of this machine: instance folder, command line, ports, readiness, process tree."""
