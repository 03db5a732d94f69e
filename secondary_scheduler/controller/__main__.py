"""`python -m secondary_scheduler.controller`."""

from secondary_scheduler.controller.app import main

if __name__ == "__main__":
    raise SystemExit(main())
