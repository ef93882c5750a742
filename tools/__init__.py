"""What developers run beside the suite; not in the wheel."""
