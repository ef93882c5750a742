"""Work around a run: replay, bundle, upgrade, soak, and the check of an adapter."""
