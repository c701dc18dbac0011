"""Building blocks shared by tools and middlewares."""
