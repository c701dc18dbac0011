"""Whether a report says of pages what they say."""
