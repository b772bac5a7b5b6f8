"""``python -m torch_ctree`` is ``ctree``."""

from torch_ctree.cli import main

if __name__ == "__main__":
    main()
