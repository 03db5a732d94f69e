"""What an administrator runs around the scheduler: the operator and the command line. Imports `scheduler` only."""
