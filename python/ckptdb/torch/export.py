# SPDX-License-Identifier: Apache-2.0
"""`python -m ckptdb.torch.export`: see --help."""

import sys

from ._commands import run_export

if __name__ == "__main__":
    sys.exit(run_export())
