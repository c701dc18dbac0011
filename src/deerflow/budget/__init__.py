"""Token and cost budgets of runs."""
