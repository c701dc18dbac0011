"""What a server tells of itself: its log and its figures."""
