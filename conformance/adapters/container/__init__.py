"""Start a broker in a container: the engine, the image and the processes of the container as the host sees them."""
