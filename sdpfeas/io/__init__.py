"""Reading and writing problems."""
