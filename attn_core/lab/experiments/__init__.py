"""The experiments of the course. Each is a module with SETTINGS, configurations(seeds, quick) and run(**configuration).

SETTINGS hold everything that decides a result beside what `configurations` says. Some modules set SEEDS, where a result
needs more runs than the fewest, or WORKERS, where several runs at once would disturb one another.
"""

NAMES = (
    "extrapolation",
    "translation",
    "role_binding",
    "language_identification",
    "gradients",
    "head_speed",
    "peak_memory",
    "head_probes",
)
# What they measure depends on the machine: no cluster for them, nor for those that set WORKERS.
OF_THIS_MACHINE = {"head_speed", "peak_memory"}
