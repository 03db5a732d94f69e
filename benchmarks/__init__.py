"""Benchmarks that anyone can repeat. Absolute figures depend on the machine; compare within one run.

What belongs here: measurements of the product from outside, and what they need. It may import everything else of the
project; nothing imports it.
"""
