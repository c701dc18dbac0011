"""Skills: instructions in SKILL.md folders that agents load on demand."""
