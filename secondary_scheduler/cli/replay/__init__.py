"""A recording replayed under a configuration, for `plan`, which compares two, and `ui`, which shows one."""
