"""Accounts of people: passwords, sessions, API tokens, invitations, and who a credential belongs to."""
