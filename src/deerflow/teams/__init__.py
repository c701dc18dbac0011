"""Teams of people, and threads that people share with each other."""
