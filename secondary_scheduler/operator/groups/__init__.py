"""The controllers that keep the status of PodGroups and ElasticQuotas, which scheduler-plugins has in a second binary.

Membership: `podgroups` and `elasticquotas` are pure functions from objects and pods to a status; `objects` holds what
the watches delivered; `status` is the loop that both kinds share. They watch pods only while an object of their kind
exists, since pods are most of a cluster's objects, and they write nothing but `/status`.
"""

from secondary_scheduler.operator.groups.status import (
    KINDS as KINDS,
    StatusController as StatusController,
    status_controllers as status_controllers,
)
