"""From a text a user wrote to checked settings, or to sentences that say what is wrong and where."""
