"""A pod's volumes: ``sources`` computes their content, ``manager`` keeps them current, ``writer`` writes to disk."""
