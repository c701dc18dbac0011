"""Threads: state, history, deletion and retention."""
