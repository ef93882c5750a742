"""Work around a run: replay, bundle, upgrade, and the check of an adapter."""
