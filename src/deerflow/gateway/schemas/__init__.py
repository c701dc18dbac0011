"""Request and response bodies shared by routers."""
