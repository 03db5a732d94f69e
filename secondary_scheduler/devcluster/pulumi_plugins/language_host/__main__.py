import sys

from secondary_scheduler.devcluster.pulumi_plugins.plugin_process import prepare


def _main() -> None:
    prepare()
    from secondary_scheduler.devcluster.pulumi_plugins.language_host.servicer import main

    main(sys.argv[1:])


if __name__ == "__main__":
    _main()
