"""The laboratory: tasks, models, training, sweeps over settings and seeds, and the statistics of their results."""
