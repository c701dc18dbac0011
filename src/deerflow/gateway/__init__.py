"""HTTP gateway."""
