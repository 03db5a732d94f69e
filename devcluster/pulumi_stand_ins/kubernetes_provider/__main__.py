import sys

from devcluster.pulumi_stand_ins.serving import prepare


def _main() -> None:
    prepare()
    from devcluster.pulumi_stand_ins.kubernetes_provider.servicer import main

    main(sys.argv[1:])


if __name__ == "__main__":
    _main()
