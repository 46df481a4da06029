"""More than one machine: replicas of the engine on a Ray cluster (extra `ray`), behind the same front ends.

`engine` is what the front ends ask; it sends requests to `replica`s, of which each holds an Engine, and to
others when one dies. `board` is an actor that knows what every replica reports, what all of them are to do,
and what was measured. `settings`, `traffic`, `picture` and `board` know nothing of Ray.
"""

from __future__ import annotations
