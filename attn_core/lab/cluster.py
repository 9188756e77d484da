"""A dask cluster for the runs of a sweep: several machines, each with workers of one thread."""

import asyncio

from attn_core.lab.sweep import other_versions, versions

SECONDS = 5


def connect(address: str):
    """A `dask.distributed.Client` of a scheduler whose workers can do our runs; its get_executor() is for `sweep`.

    Raises ImportError without dask, ConnectionError where no scheduler answers at the address within five seconds and
    RuntimeError where it has no worker, or one with several threads or other versions than this process.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("a scheduler needs dask: pip install -e '.[cluster]'") from error
    try:
        workers = asyncio.run(_workers(address))
    except Exception as error:  # dask has many kinds, from ValueError to MemoryError where something else answers
        raise ConnectionError(
            f"no dask scheduler answers at {address!r}, which must be an address that `dask scheduler` prints, "
            "such as tcp://192.0.2.1:8786"
        ) from error
    if not workers:
        raise RuntimeError(f"the scheduler has no worker; start some: dask worker {address} --nthreads 1 --nworkers 4")
    for worker, threads in workers.items():
        if threads != 1:  # its runs would take turns, see sweep.py
            raise RuntimeError(
                f"a worker must have one thread, and {worker} has {threads}; "
                f"start it again: dask worker {address} --nthreads 1 --nworkers {threads}"
            )
    client = Client(address, timeout=SECONDS, set_as_default=False)
    for worker, theirs in client.run(versions, on_error="return").items():
        if isinstance(theirs, Exception):
            problem = f"the worker must be able to import attn_core, and says {theirs}"
        else:
            problem = other_versions(theirs)
        if problem:
            client.close()
            raise RuntimeError(f"{problem} ({worker})")
    return client


def size(client) -> int:
    """The number of workers now."""
    return len(client.nthreads())


async def _workers(address: str) -> dict[str, int]:
    """The threads of each worker. A client would wait long where something else than a scheduler answers."""
    from distributed import rpc

    async def ask():
        async with rpc(address, timeout=SECONDS) as scheduler:
            return await scheduler.identity(n_workers=-1)

    found = await asyncio.wait_for(ask(), SECONDS)
    return {worker: about["nthreads"] for worker, about in found["workers"].items()}
