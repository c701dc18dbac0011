"""Words everyone uses: plain data, no input or output."""
