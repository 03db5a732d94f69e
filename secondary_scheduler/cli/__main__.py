"""`python -m secondary_scheduler.cli`, for environments without the console script."""

from secondary_scheduler.cli.app import main

if __name__ == "__main__":
    main()
