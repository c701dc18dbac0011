"""Run engine: admission, execution, recovery and reading of runs."""
