"""`python -m cronflow` is `cronflow`."""

from cronflow.cli.main import main

if __name__ == "__main__":
    main()
