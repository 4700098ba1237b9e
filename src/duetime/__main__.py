"""``python -m duetime``: the same as the command ``duetime``."""

from duetime.cli import main

if __name__ == "__main__":
    main()
