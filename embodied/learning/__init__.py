"""Goal-conditioned SAC with Beta-distributed bounded actions, hindsight replay, checkpoints."""
