"""`secondary-scheduler convert`: a configuration of an older version rewritten as v1, its comments kept."""
