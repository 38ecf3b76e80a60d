"""One torch thread everywhere: two on a busy machine make small networks many times slower."""

import torch

torch.set_num_threads(1)
