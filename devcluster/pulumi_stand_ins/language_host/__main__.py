import sys

from devcluster.pulumi_stand_ins.plugin_process import prepare


def _main() -> None:
    prepare()
    from devcluster.pulumi_stand_ins.language_host.servicer import main

    main(sys.argv[1:])


if __name__ == "__main__":
    _main()
