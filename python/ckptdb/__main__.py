# SPDX-License-Identifier: Apache-2.0
"""`python -m ckptdb`: see --help."""

import sys

from ._convert import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
