// What several ways to do the same work leave in a card's memory, compared on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/device_stream.h"

namespace tunableop {

// A result on the card: rows without gaps.
struct FormAnswer {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
};

// Used by the one thread that measures.
class FormAnswers {
 public:
  // `like`: a product with as many terms, of these types, in this precision: what the tolerance is
  // taken from. `most_bytes`: of the host's memory, for all of what is compared; of larger answers,
  // pieces are. What is given must outlive this.
  FormAnswers(std::span<const FormAnswer> answers, const Problem& like, size_t most_bytes,
              MeasuringStream& stream);

  // Queues what makes elements that are not written known: they are no numbers.
  Status Poison();
  // Fetches what was left there, and waits for it. The first is what the others are compared with.
  // `wrong`: in what it differs from the first; empty: in nothing. An error is the card's, or
  // kOutOfMemory on the host.
  Status Fetch(std::string& wrong);

 private:
  struct Piece {
    size_t answer;
    int64_t first;  // element
    int64_t count;
  };
  void CutUp(size_t answer, size_t most_bytes);
  std::string Compare(const Piece& piece, const std::byte* trusted, const std::byte* got) const;

  const std::span<const FormAnswer> answers_;
  const Problem& like_;
  MeasuringStream& stream_;
  std::vector<Piece> pieces_;
  size_t bytes_ = 0;  // of all pieces
  std::vector<std::byte> trusted_;
};

}  // namespace tunableop
