"""A simulation of the lanes: the distribution of tenants over them, and the time until a burst drains."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from shared.core.jobs.routing import lane_of

LANES = 16


def weights(tenants: int, skew: float) -> np.ndarray:
    """Returns shares of the traffic by tenant: Zipf with exponent `skew`, 0 for equal shares."""
    ranks = np.arange(1, tenants + 1, dtype=float) ** -skew
    return ranks / ranks.sum()


def busiest(tenants: int, skew: float, mode: str, *, jobs: int = 50_000, seed: int = 0) -> float:
    """Returns the busiest lane's traffic divided by an even share. 1 is perfect, and 16 is all traffic on one lane.

    The lane of each job is computed by the product's own routing, over the keys of DEFAULT or BURST. Tenants have
    random names, since CRC32 spreads names that differ in one digit more evenly than real names.
    """
    rng = np.random.default_rng(seed)
    names = [rng.bytes(8).hex() for _ in range(tenants)]
    drawn = rng.choice(tenants, size=jobs, p=weights(tenants, skew))
    keys = (names[tenant] + (f"doc-{number:07d}" if mode == "BURST" else "") for number, tenant in enumerate(drawn))
    counts = np.bincount([lane_of(key, LANES) for key in keys], minlength=LANES)
    return float(counts.max() / counts.mean())


@dataclass(frozen=True)
class Drained:
    """The times of a simulation, in seconds.

    `drained_s` is the time until the burst's last reply was processed. `neighbour_s` is the longest wait of another
    tenant's reply.
    """

    drained_s: float
    neighbour_s: float


def drain(
    mode: str, *, burst: int, calls_a_lane: int, handling_s: float, neighbour_every_s: float, seed: int = 0
) -> Drained:
    """Simulates one tenant's simultaneous replies, and occasional replies of a neighbour, which is another tenant.

    Each lane is a first-in-first-out queue with `calls_a_lane` servers (instances times `maxConcurrentCalls`). The
    handling times are exponential with mean `handling_s`. With OTHER LANE and SHARED the neighbour is on another lane
    than the tenant, else on the same lane. SHARED has one queue for the replies of all lanes.
    """
    rng = np.random.default_rng(seed)
    crowded = lane_of("tenant-0000", LANES)
    burst_lanes = [
        lane_of(f"tenant-0000doc-{number:07d}" if mode == "BURST" else "tenant-0000", LANES) for number in range(burst)
    ]
    horizon = burst * handling_s / calls_a_lane
    # the neighbour's lane, and the queue of its replies: the same calls read all lanes of the shared queue
    neighbours = crowded if mode in ("DEFAULT", "BURST") else (crowded + 1) % LANES
    read_at = {lane: 0 if mode == "SHARED" else lane for lane in range(LANES)}
    arrivals: list[list[tuple[float, bool]]] = [[] for _ in range(LANES)]
    for lane in burst_lanes:
        arrivals[read_at[lane]].append((0.0, False))
    arrivals[read_at[neighbours]] += [(at, True) for at in np.arange(neighbour_every_s, horizon, neighbour_every_s)]
    lanes = [_serve(sorted(each), calls_a_lane, handling_s, rng) for each in arrivals]
    return Drained(max(ended for ended, _ in lanes), lanes[read_at[neighbours]][1])


def _serve(
    arrivals: Iterable[tuple[float, bool]], servers: int, handling_s: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Returns the time when the burst's last reply ended, and the longest wait of a neighbour."""
    free = [0.0] * servers
    last = longest = 0.0
    for at, neighbour in arrivals:
        begins = max(at, heapq.heappop(free))
        ends = begins + rng.exponential(handling_s)
        heapq.heappush(free, ends)
        if neighbour:
            longest = max(longest, begins - at)
        else:
            last = max(last, ends)
    return last, longest
