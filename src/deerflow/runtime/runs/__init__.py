"""Runs: accepting, carrying out, reading and recovering them."""
