"""A pod's volumes: ``sources`` computes their content, ``tokens`` requests tokens, ``writer`` writes to disk."""
