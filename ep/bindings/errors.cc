#include "bindings/errors.h"

#include <pybind11/pybind11.h>

#include <string>

namespace tunableop::bindings {

void ThrowIfError(const Status& status) {
  if (status.ok()) return;
  const std::string message(status.message());
  PyObject* type = PyExc_RuntimeError;
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kDataLoss:
      type = PyExc_ValueError;
      break;
    case StatusCode::kNotSupported:
      type = PyExc_NotImplementedError;
      break;
    case StatusCode::kNotFound:
      type = PyExc_FileNotFoundError;
      break;
    case StatusCode::kOutOfMemory:
      type = PyExc_MemoryError;
      break;
    case StatusCode::kIoError:
    case StatusCode::kBusy:
      type = PyExc_OSError;
      break;
    default:
      break;
  }
  // A path in it may hold any bytes.
  PyObject* text =
      PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace");
  if (text != nullptr) PyErr_SetObject(type, text);
  Py_XDECREF(text);
  throw pybind11::error_already_set();
}

}  // namespace tunableop::bindings
