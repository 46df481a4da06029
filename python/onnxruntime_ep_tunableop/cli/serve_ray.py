"""`tunableop serve --engine ray`: its options, and the server."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TextIO

from . import serve_values
from .command import UsageError

if TYPE_CHECKING:  # they need the extra
    from ..serve.front import FrontSettings
    from ..serve.ray.settings import RaySettings
    from ..serve.settings import ServerSettings

_MEBIBYTE = 1 << 20
#: Ray does not start with less.
_LEAST_OBJECT_STORE_MIB = 76

#: Options that say nothing to the embedded engine.
_OPTIONS = (
    "ray_address",
    "replicas",
    "autoscale",
    "cpus_per_replica",
    "gpus_per_replica",
    "target_requests",
    "app",
    "object_store_mib",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """To those of `serve`."""
    group = parser.add_argument_group("more than one machine", "Replicas on a Ray cluster (extra 'ray').")
    group.add_argument(
        "--engine",
        choices=("embedded", "ray"),
        default="embedded",
        help="where models run: in this process, or in replicas on a Ray cluster (default: embedded)",
    )
    group.add_argument(
        "--ray-address",
        metavar="HOST:PORT",
        help="a cluster that this machine is a node of, or auto (default: one of its own)",
    )
    group.add_argument("--replicas", metavar="N", type=serve_values.count, help="(default: 1)")
    group.add_argument(
        "--autoscale",
        metavar="MIN:MAX",
        type=_range,
        help="replicas, as many as requests need, instead of --replicas",
    )
    group.add_argument(
        "--target-requests",
        metavar="N",
        type=_amount,
        help="at a replica, on average, that --autoscale aims at (default: 32)",
    )
    group.add_argument("--cpus-per-replica", metavar="N", type=_amount, help="(default: 1)")
    group.add_argument("--gpus-per-replica", metavar="N", type=_amount, help="(default: 0)")
    group.add_argument("--app", metavar="NAME", help="of the application in Ray Serve (default: tunableop)")
    group.add_argument(
        "--object-store-mib",
        metavar="MIB",
        type=_store,
        help="of a cluster of its own (default: as Ray does)",
    )


def need_extra() -> None:
    """UsageError where Ray is not installed."""
    try:
        import ray.serve  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"--engine ray needs ray[serve], which is not here ({error}): "
            "pip install 'onnxruntime-ep-tunableop[serve,ray]'"
        ) from None


def refuse_options(given: argparse.Namespace) -> None:
    """UsageError where something is asked for that only replicas have."""
    if wrong := [name for name in _OPTIONS if getattr(given, name) is not None]:
        options = ", ".join("--" + name.replace("_", "-") for name in wrong)
        raise UsageError(f"{options}: only with --engine ray")


def _store(text: str) -> int:
    if not text.isdecimal() or int(text) < _LEAST_OBJECT_STORE_MIB:
        raise argparse.ArgumentTypeError(
            f"expected a whole number from {_LEAST_OBJECT_STORE_MIB} up, found '{text}'"
        )
    return int(text)


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number from 0 up, found '{text}'")
    return value


def _range(text: str) -> tuple[int, int]:
    least, colon, most = text.partition(":")
    if not colon or not least.isdecimal() or not most.isdecimal() or not 1 <= int(least) <= int(most):
        raise argparse.ArgumentTypeError(f"expected MIN:MAX with 1 <= MIN <= MAX, found '{text}'")
    return int(least), int(most)


def _ray_settings(given: argparse.Namespace) -> RaySettings:
    from ..serve.ray.settings import RaySettings

    if given.replicas is not None and given.autoscale is not None:
        raise UsageError("--replicas and --autoscale: expected one of them")
    if given.target_requests is not None and not (given.autoscale and given.target_requests > 0):
        raise UsageError("--target-requests: expected a number above 0, and --autoscale")
    if given.ray_address is not None and "://" in given.ray_address:
        raise UsageError(
            f"--ray-address: expected HOST:PORT or auto, found '{given.ray_address}': "
            "the server runs on a node of the cluster, not through Ray's client"
        )
    if given.ray_address is not None and given.object_store_mib is not None:
        raise UsageError("--object-store-mib: only for a cluster of its own")
    least, most = given.autoscale or (given.replicas or 1, None)
    defaults = RaySettings()
    return RaySettings(
        address=given.ray_address,
        replicas=least,
        most=most,
        cpus=defaults.cpus if given.cpus_per_replica is None else given.cpus_per_replica,
        gpus=defaults.gpus if given.gpus_per_replica is None else given.gpus_per_replica,
        target_requests=given.target_requests or defaults.target_requests,
        app=given.app or defaults.app,
        object_store=None if given.object_store_mib is None else given.object_store_mib * _MEBIBYTE,
    )


async def serve_on_ray(
    given: argparse.Namespace, settings: ServerSettings, front: FrontSettings, stream: TextIO | None
) -> int:
    """Until TERM or INT; the exit code."""
    from ..serve.access_log import AccessLog
    from ..serve.ray.engine import RayEngine
    from ..serve.server import serve
    from ..serve.settings import SettingsError

    try:
        engine = await RayEngine.start(settings, _ray_settings(given), front.grace)
    except SettingsError as error:
        raise UsageError(str(error)) from error
    log = None if stream is None else AccessLog(stream)
    return await serve(engine, front, lambda line: print(line, flush=True), log)
