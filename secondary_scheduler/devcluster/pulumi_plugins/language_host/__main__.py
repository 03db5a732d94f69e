import sys

from secondary_scheduler.devcluster.pulumi_plugins.language_host.servicer import main

if __name__ == "__main__":
    main(sys.argv[1:])
