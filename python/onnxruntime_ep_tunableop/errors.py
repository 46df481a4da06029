"""What can go wrong, as exceptions."""

from __future__ import annotations


class TunableOpError(RuntimeError):
    """Base of every error that this package raises itself."""


class NoDeviceError(TunableOpError):
    """The provider library is registered, but ONNX Runtime lists no device of it."""


class UnsupportedRuntimeError(TunableOpError):
    """The installed onnxruntime cannot load plugin execution providers of this kind."""


class OptionError(TunableOpError, ValueError):
    """An option has an unknown name or a wrong value; the message names what is allowed."""


class NotAssignedError(TunableOpError):
    """The session runs none of its nodes on TunableOpExecutionProvider."""
