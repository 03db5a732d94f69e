"""Pinned binaries of the local control plane, built from their Go modules."""
