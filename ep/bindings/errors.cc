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
  PyErr_SetString(type, message.c_str());
  throw pybind11::error_already_set();
}

}  // namespace tunableop::bindings
