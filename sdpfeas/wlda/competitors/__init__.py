"""What the paper compares WLDA with, one method a file."""
