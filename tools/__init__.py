"""Scripts for developers: what `make` calls."""
