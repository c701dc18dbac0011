"""What outlives the process: tables, repositories, checkpoints."""
