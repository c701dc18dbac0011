"""Where an agent's commands and files live."""
