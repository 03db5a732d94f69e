import signal
import sys


def _main() -> None:
    # An interrupt during the imports ends us without a trace; `serve` handles those that come later.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from secondary_scheduler.devcluster.pulumi_plugins.kubernetes_provider.servicer import main

    main(sys.argv[1:])


if __name__ == "__main__":
    _main()
