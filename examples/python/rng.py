# SPDX-License-Identifier: Apache-2.0
"""The random number generators as an entry of a manager's state."""

import random

import numpy as np
import torch


class Rng:
    """The generators of Python, NumPy and PyTorch. Frameworks draw numbers while they
    set up a run: call `apply` before the first step, too."""

    restored = None

    def state_dict(self):
        return {
            "python": random.getstate(),
            "numpy": np.random.get_state(legacy=False),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all(),
        }

    def load_state_dict(self, state):
        self.restored = state
        self.apply()

    def apply(self):
        """Continues with the restored numbers, if there are any."""
        if self.restored is not None:
            random.setstate(self.restored["python"])
            np.random.set_state(self.restored["numpy"])
            torch.set_rng_state(self.restored["torch"])
            torch.cuda.set_rng_state_all(self.restored["cuda"])
