"""What is done after a run, or beside it: replay, bundle, upgrade, and the contract of an adapter."""
