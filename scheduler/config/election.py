"""Keys of `leaderElection` that a file says in vain, because flags win."""

from collections.abc import Mapping
from typing import Any

from scheduler.catalog import Duration, StrictModel


class LeaseFlags(StrictModel):
    """What `--leader-elect-…` say, under the names that `leaderElection` of a configuration has for it.

    The timings default to what this project's operator gives unless it is told otherwise.
    """

    leader_elect: bool = True
    lease_duration: Duration = 15.0
    renew_deadline: Duration = 10.0
    retry_period: Duration = 2.0
    resource_lock: str = "leases"
    resource_name: str
    resource_namespace: str


def overridden_lease_keys(data: Any, flags: LeaseFlags) -> tuple[str, ...]:
    """Return the keys of `leaderElection` in a configuration's data that say something else than the flags, sorted.

    What is no mapping, and a value that does not decode, is somebody else's to refuse.
    """
    election = data.get("leaderElection") if isinstance(data, Mapping) else None
    if not isinstance(election, Mapping):
        return ()
    flag_values = flags.to_dict()
    return tuple(sorted(key for key, value in election.items() if key in flag_values and _differs(key, value, flags)))


def _differs(key: str, value: Any, flags: LeaseFlags) -> bool:
    try:
        read = LeaseFlags.model_validate({**flags.to_dict(), key: value})
    except ValueError:
        return False
    return read != flags
