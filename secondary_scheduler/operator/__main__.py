"""`python -m secondary_scheduler.operator`."""

from secondary_scheduler.operator.app import main

if __name__ == "__main__":
    raise SystemExit(main())
