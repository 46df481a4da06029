"""When a batch has waited long enough. No clock of its own, no event loop: times are told."""

from __future__ import annotations

import math

_NEW = 0.2  #: weight of the newest run in the mean
_FORGET = 0.25  #: share of what is above the present that each run takes off the expected company
_DOUBT = 0.9  #: each request refused as too late makes the next one look so much faster


class Pace:
    """Watches how many requests come together and how long runs take. Seconds.

    With `c` requests coming together and `i` runs at a time, groups of c / (i + 1) keep every instance busy
    while one more group gathers (its clients read the last answer, and ask again). So a free instance waits
    for that many, and no more: for `max_delay` at most, nor longer than a run takes, since a wait that does
    not pay off should cost no more than the run that it put off. When it does not, nobody is expected any
    more.
    """

    def __init__(self, instances: int, max_batch: int, max_delay: float) -> None:
        self._instances = instances
        self._max_batch = max_batch
        self._max_delay = max_delay
        self._together = 0.0
        self._mean = 0.0
        self._fastest = math.inf

    def came(self, present: int) -> None:
        """A request came; with it, so many are waiting or being run."""
        self._together = max(self._together, float(present))

    def started(self, present: int) -> None:
        """A batch was started."""
        self._together -= _FORGET * max(0.0, self._together - present)

    def ended(self, seconds: float) -> None:
        """A run took so long."""
        self._mean = seconds if self._mean == 0.0 else self._mean + _NEW * (seconds - self._mean)
        self._fastest = min(self._fastest, seconds)

    def in_vain(self, present: int) -> None:
        """Nobody came in time."""
        self._together = float(present)

    @property
    def wanted(self) -> int:
        """Requests worth waiting for."""
        return min(self._max_batch, math.ceil(self._together / (self._instances + 1)))

    @property
    def patience(self) -> float:
        """How long a batch may wait for them."""
        return min(self._max_delay, self._mean)

    def too_late(self, left: float) -> bool:
        """Whether a run that must end in `left` seconds cannot: none was that fast yet.

        The estimate is doubted a little more with each refusal: were all refused, it would stay as it is.
        """
        if left <= 0.0:
            return True
        if math.isinf(self._fastest) or left >= self._fastest:
            return False
        self._fastest *= _DOUBT
        return True

    def until_free(self, rows: int) -> float:
        """How long it takes about until so many rows are done; a second where nothing is known."""
        if self._mean == 0.0:
            return 1.0
        return self._mean * math.ceil(rows / self._max_batch) / self._instances
