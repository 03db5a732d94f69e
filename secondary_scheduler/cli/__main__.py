"""The program `secondary-scheduler`, also as `python -m secondary_scheduler.cli`.

Apart from `app`, whose imports need the extra `cli`: a missing extra has to be reported by something that needs none.
"""

from scheduler.extras import requires_extra


def main() -> None:
    """Run the command of `sys.argv`; ends the process with the command's exit code."""
    with requires_extra("secondary-scheduler", "cli"):
        from secondary_scheduler.cli.app import main as run

        run()


def complete() -> None:
    """Answer kubectl, which asks for completions of `kubectl secondary-scheduler …`."""
    with requires_extra("secondary-scheduler", "cli"):
        from secondary_scheduler.cli.completion import main as answer

        answer()


if __name__ == "__main__":
    main()
