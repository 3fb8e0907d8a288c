# SPDX-License-Identifier: Apache-2.0
"""ckptdb for PyTorch's distributed package."""
