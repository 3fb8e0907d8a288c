# SPDX-License-Identifier: Apache-2.0
"""ckptdb for PyTorch's distributed training."""

from ._ranks import ranks

__all__ = ["ranks"]
