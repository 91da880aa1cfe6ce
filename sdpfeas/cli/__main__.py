"""Run the command line as ``python -m sdpfeas.cli``."""

from sdpfeas.cli.app import main

if __name__ == "__main__":
    main()
