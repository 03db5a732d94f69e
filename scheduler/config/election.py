"""Keys of `leaderElection` in a file that have no effect, because flags override them."""

from collections.abc import Mapping
from typing import Any

from scheduler.catalog import Duration, StrictModel


class LeaseFlags(StrictModel):
    """The flags `--leader-elect-…`, with the field names of `leaderElection` in a configuration.

    Timings in seconds; the defaults are those that this project's operator passes.
    """

    leader_elect: bool = True
    lease_duration: Duration = 15.0
    renew_deadline: Duration = 10.0
    retry_period: Duration = 2.0
    resource_lock: str = "leases"
    resource_name: str
    resource_namespace: str


def overridden_lease_keys(data: Any, flags: LeaseFlags) -> tuple[str, ...]:
    """Return the sorted keys of `leaderElection` in a configuration's data whose values differ from the flags.

    Data that is not a mapping, or does not decode, is ignored: `load_configuration` refuses it.
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
