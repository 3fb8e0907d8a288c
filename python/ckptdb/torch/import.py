# SPDX-License-Identifier: Apache-2.0
"""`python -m ckptdb.torch.import`: see --help."""

import sys

from ._commands import run_import

if __name__ == "__main__":
    sys.exit(run_import())
