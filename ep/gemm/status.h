// Errors as values. Status is the size of a pointer and an OK status allocates nothing, so that it
// can be returned on the hot path; nothing in this project throws across a room's border.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tunableop {

enum class StatusCode : uint8_t {
  kOk,
  kInvalidArgument,  // the caller's input is wrong; the message says what was expected
  kNotSupported,     // right, but not something this kernel, library or machine does
  kNotFound,         // a file, symbol, kernel or library is absent
  kOutOfMemory,
  kIoError,    // the operating system refused a read or a write
  kDataLoss,   // a file was read but its content is damaged or foreign
  kInternal,   // a defect in this project or in the library called
  kBusy,       // somebody else has it at the moment; later it may do
  kCancelled,  // given up because it was told to
};

// "invalid argument", "not supported" ...
std::string_view StatusCodeName(StatusCode code) noexcept;

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(StatusCode code, std::string message)
      : rep_(std::make_unique<Rep>(Rep{code, std::move(message)})) {}

  static Status Ok() noexcept { return {}; }

  bool ok() const noexcept { return rep_ == nullptr; }
  StatusCode code() const noexcept { return rep_ ? rep_->code : StatusCode::kOk; }
  // Empty when ok. Both are valid while this Status lives.
  std::string_view message() const noexcept {
    return rep_ ? std::string_view(rep_->message) : std::string_view();
  }

  const char* c_str() const noexcept { return rep_ ? rep_->message.c_str() : ""; }

 private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const noexcept { return std::holds_alternative<T>(state_); }
  // Precondition: ok().
  T& value() & noexcept { return *std::get_if<T>(&state_); }
  const T& value() const& noexcept { return *std::get_if<T>(&state_); }
  T&& value() && noexcept { return std::move(*std::get_if<T>(&state_)); }
  // Precondition: !ok().
  Status TakeStatus() noexcept { return std::move(*std::get_if<Status>(&state_)); }
  const Status& status() const noexcept { return *std::get_if<Status>(&state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace tunableop

#define TUNABLEOP_RETURN_IF_ERROR(expression)                                      \
  do {                                                                             \
    if (::tunableop::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
