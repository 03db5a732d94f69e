"""Quantities, selectors and times exactly as Kubernetes reads them. Standard library only, no I/O."""
