"""Services on threads and runs: artifacts, export, feedback, search, sharing, usage, web pages and user data."""
