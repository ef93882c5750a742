"""Get the distribution of a broker: from the cache, a Maven repository or the package manager."""
