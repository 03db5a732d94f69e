"""The kind of the operator's resource, and its group with the version."""

from typing import Final

KIND: Final = "SecondaryScheduler"
API_VERSION: Final = "operator.openshift.io/v1"
