"""The controllers that keep the status of PodGroups and ElasticQuotas, which scheduler-plugins has in a second binary.

They look at pods only while there is an object of their kind, and write nothing but `/status`.
"""

from secondary_scheduler.operator.groups.status import KINDS, status_controllers

__all__ = ["KINDS", "status_controllers"]
