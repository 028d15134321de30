"""What is drawn at random while a model trains, such as dropout: a function of the seed and the step's number."""

import numpy as np
import torch


def seed_step(seed: int, number: int) -> None:
    """Make all that torch draws until the next call follow from the seed and a number, of a step or a micro-batch."""
    torch.manual_seed(int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]))
