"""How the history of decisions goes from one leader to the next: contract of pods, rights and endpoint."""

HANDOVER_PATH = "/debug/handover"
HANDOVER_AUDIENCE = "secondary-scheduler.io/handover"
"""Of the tokens by which two replicas know each other. The API server takes them for nothing else."""
HANDOVER_DIRECTORY = "/var/run/secrets/secondary-scheduler/handover"
"""Where the scheduler's pod has its token of this audience, as the file `token`."""
