"""The journal: records, their bytes, group commit, and the one module that writes files."""
