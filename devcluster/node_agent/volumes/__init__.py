"""What stands in a pod's volumes: ``sources`` computes it, ``tokens`` gets tokens, ``writer`` puts it on disk."""
