"""Backends, one file each; they are found through entry points, never imported from here."""
