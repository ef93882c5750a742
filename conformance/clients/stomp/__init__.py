"""Sessions over STOMP 1.2: through stomp.py, and on a bare socket."""
