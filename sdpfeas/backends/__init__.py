"""Backends, one file or folder each; they are found through entry points, never imported from here."""
