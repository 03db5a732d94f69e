"""Keys of leaderElection that the operator's flags make ineffective."""

from typing import Any

import pytest

from scheduler.config import LeaseFlags, overridden_lease_keys

FLAGS = LeaseFlags.model_validate({"resourceName": "secondary-scheduler", "resourceNamespace": "ns"})


@pytest.mark.parametrize(
    ("election", "keys"),
    [
        ({"leaderElect": False}, ("leaderElect",)),
        ({"leaderElect": True}, ()),
        ({"leaseDuration": "30s", "retryPeriod": "2s", "renewDeadline": "10000ms"}, ("leaseDuration",)),
        ({"resourceName": "x", "resourceNamespace": "ns"}, ("resourceName",)),
        ({"unknown": 1}, ()),
        ({"leaseDuration": "soon"}, ()),
        ("text", ()),
        (None, ()),
    ],
)
def test_keys_that_say_something_else_than_the_flags(election: Any, keys: tuple[str, ...]) -> None:
    assert overridden_lease_keys({"leaderElection": election}, FLAGS) == keys


def test_data_that_is_no_mapping_has_none() -> None:
    assert overridden_lease_keys(None, FLAGS) == ()
