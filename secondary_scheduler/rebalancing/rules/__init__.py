"""The safety rules, a function of data each: what returns None allows, a `Refusal` says why not.

`pods`: rule 1. `moves`: 2. `health`: 3 and 8. `evictions`: 4 and 9. `pace`: 5, 6 and 7. docs/rebalancing.md lists them.
"""
