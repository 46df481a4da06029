#include "tuner/form_answers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <new>

#include "tuner/elements.h"
#include "tuner/tolerance.h"

namespace tunableop {
namespace {

constexpr uint8_t kPoison = 0xFF;       // no number, in any type
constexpr int64_t kSampledPieces = 16;  // of an answer that is too large
// Values between two kernels of a form may be rounded to the type, which one kernel does not do. So
// many times the rounding of the largest value of a row: of a softmax's arguments, which are in an
// exponent.
constexpr double kRoundings = 16.0;

std::string Text(double value) {
  if (std::isnan(value)) return "no number";
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

}  // namespace

FormAnswers::FormAnswers(std::span<const FormAnswer> answers, const Problem& like,
                         size_t most_bytes, MeasuringStream& stream)
    : answers_(answers), like_(like), stream_(stream) {
  for (size_t i = 0; i < answers.size(); ++i) CutUp(i, most_bytes / answers.size());
}

void FormAnswers::CutUp(size_t answer, size_t most_bytes) {
  const FormAnswer& whole = answers_[answer];
  const int64_t elements = whole.rows * whole.columns;
  const auto most = static_cast<int64_t>(most_bytes / SizeOf(like_.c_type));
  if (elements <= most) {
    pieces_.push_back({answer, 0, elements});
    bytes_ += static_cast<size_t>(elements) * SizeOf(like_.c_type);
    return;
  }
  // The first and the last rows among them.
  const int64_t rows = std::clamp<int64_t>(most / kSampledPieces / whole.columns, 1, whole.rows);
  const int64_t count = std::min(kSampledPieces, whole.rows / rows);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = count == 1 ? 0 : i * (whole.rows - rows) / (count - 1);
    pieces_.push_back({answer, row * whole.columns, rows * whole.columns});
    bytes_ += static_cast<size_t>(rows * whole.columns) * SizeOf(like_.c_type);
  }
}

Status FormAnswers::Poison() {
  for (const FormAnswer& answer : answers_) {
    const size_t bytes = static_cast<size_t>(answer.rows * answer.columns) * SizeOf(like_.c_type);
    TUNABLEOP_RETURN_IF_ERROR(stream_.device().Fill(answer.data, kPoison, bytes, stream_.native()));
  }
  return Status::Ok();
}

Status FormAnswers::Fetch(std::string& wrong) {
  std::vector<std::byte> fetched;
  try {
    fetched.resize(bytes_);
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "no memory on the host to compare answers in"};
  }
  TUNABLEOP_RETURN_IF_ERROR(stream_.Finish());  // copies to the host wait without a limit
  const size_t size = SizeOf(like_.c_type);
  size_t at = 0;
  for (const Piece& piece : pieces_) {
    const auto* from = static_cast<const std::byte*>(answers_[piece.answer].data) +
                       static_cast<size_t>(piece.first) * size;
    const size_t bytes = static_cast<size_t>(piece.count) * size;
    TUNABLEOP_RETURN_IF_ERROR(
        stream_.Copy(fetched.data() + at, from, bytes, CopyKind::kDeviceToHost));
    at += bytes;
  }
  TUNABLEOP_RETURN_IF_ERROR(stream_.Finish());
  wrong.clear();
  if (trusted_.empty()) {
    trusted_ = std::move(fetched);
    return Status::Ok();
  }
  at = 0;
  for (const Piece& piece : pieces_) {
    wrong = Compare(piece, trusted_.data() + at, fetched.data() + at);
    if (!wrong.empty()) break;
    at += static_cast<size_t>(piece.count) * size;
  }
  return Status::Ok();
}

std::string FormAnswers::Compare(const Piece& piece, const std::byte* trusted,
                                 const std::byte* got) const {
  const DataType type = like_.c_type;
  const Tolerance tolerance(like_);
  const int64_t columns = answers_[piece.answer].columns;
  std::vector<double> ours(static_cast<size_t>(columns));
  std::vector<double> theirs(static_cast<size_t>(columns));
  // Of terms of either sign, the sum of the magnitudes is about this many times their sum.
  const double spread = std::sqrt(static_cast<double>(like_.k));
  for (int64_t begin = 0; begin < piece.count; begin += columns) {
    LoadElements(trusted, type, begin, columns, ours.data());
    LoadElements(got, type, begin, columns, theirs.data());
    double largest = 0.0;
    for (const double value : ours) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
    for (int64_t j = 0; j < columns; ++j) {
      const double expected = ours[static_cast<size_t>(j)];
      const double value = theirs[static_cast<size_t>(j)];
      const double allowed =
          tolerance.Between(std::isfinite(expected) ? expected : 0.0, spread * largest) +
          kRoundings * UnitRoundoff(type) * largest;
      if (tolerance.Error(expected, allowed, value) <= 1.0) continue;
      return "answer " + std::to_string(piece.answer) + ", row " +
             std::to_string((piece.first + begin) / columns) + ", column " + std::to_string(j) +
             ": " + Text(value) + ", and " + Text(expected) + " in the usual form";
    }
  }
  return {};
}

}  // namespace tunableop
