"""Measurements that anyone can repeat. Absolute figures depend on the machine; compare within one run."""
