"""How results look in a notebook: small HTML cards that need nothing from outside."""
