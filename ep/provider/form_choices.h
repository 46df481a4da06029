// Kernels of nodes that run as one can do the same work in several ways, "forms": which of them
// runs, for each shape.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/knowledge.h"
#include "gemm/problem.h"
#include "tuner/form_answers.h"

namespace tunableop {

// A pattern whose kernel has forms. Constant; all names are literals.
struct FormGroup {
  const char* name;                    // the pattern's
  std::span<const char* const> forms;  // by number
  std::span<const char* const> sizes;  // what FormKey::sizes holds
};

// What a choice is for.
struct FormKey {
  static constexpr size_t kSizes = 10;

  const FormGroup* group = nullptr;
  DataType type = DataType::kFloat32;
  Precision precision = Precision::kExact;
  std::array<int64_t, kSizes> sizes{};
  bool replayed = false;  // in graphs, where launches cost the host nothing

  bool operator==(const FormKey&) const noexcept = default;
};

// "M=128,N=768,K=768,fp16,graph": what a file has. Sizes that are 0 are left out.
std::string ToString(const FormKey& key);

// One call of such a kernel.
struct FormCall {
  FormKey key;
  size_t usual = 0;      // the form that runs where nothing was measured
  bool weights = false;  // it reads constants that other layers may have pushed out of the caches
  // For measuring: what it writes, a product with as many terms (tuner/form_answers.h), and the
  // memory that its forms take beside, at most.
  std::span<const FormAnswer> answers;
  Problem like;
  size_t bytes = 0;
};

// What is known of one key. Lives as long as the FormChoices it is of.
struct FormChoice {
  FormChoice(const FormKey& of, size_t usual_form)
      : key(of), shape(ToString(of)), usual(usual_form), form(usual_form) {}

  const FormKey key;
  const std::string shape;
  const size_t usual;
  std::atomic<size_t> form;
  std::atomic<bool> settled{false};     // nothing is to be done but to run `form`
  std::atomic<bool> busy{false};        // somebody measures it
  std::atomic<int64_t> next_try_ns{0};  // steady clock: not to be measured before
};

// Thread-safe.
class FormChoices {
 public:
  // Of those, in a session; shapes beyond run in their usual form.
  static constexpr size_t kMost = 768;

  // Null: not met yet. Takes no lock, allocates nothing.
  const FormChoice* Find(const FormKey& key) const noexcept;
  // Null: there are too many.
  FormChoice* FindOrAdd(const FormKey& key, size_t usual);

  // From a file, or from the user. Replaces what is known of the same.
  void Take(FormRecord record, std::string origin);
  // Settles the choice by what was taken, if anything was. `changed`: another form runs now.
  // `refused`: why it cannot be used; it is forgotten then.
  bool Adopt(FormChoice& choice, bool& changed, std::string& refused);
  // Settles it by a measurement. Whether another form runs now.
  bool Put(FormChoice& choice, size_t form, FormRecord record, std::string why);
  // Settles it as it is, if nothing is known of it; what is taken at the same time is not lost.
  void SettleUnknown(FormChoice& choice);
  // Whoever has no measured form is looked at again.
  void Unsettle();

  // What is worth keeping: forms that were measured, here or before.
  std::vector<FormRecord> Records() const;

  struct View {
    FormRecord record;  // as it serves; not measured: form_ms is 0
    std::string why;
    bool measured = false;
  };
  // Those that were met.
  std::vector<View> Views() const;

 private:
  static constexpr size_t kSlots = 1024;  // a power of two
  struct Known {
    FormRecord record;
    std::string why;
  };
  using Name = std::pair<std::string, std::string>;  // group, shape
  static Name NameOf(const FormChoice& choice) { return {choice.key.group->name, choice.shape}; }

  std::array<std::atomic<FormChoice*>, kSlots> slots_{};  // hashed, by open addressing
  mutable std::mutex mutex_;                              // on what follows, and adding to slots_
  std::vector<std::unique_ptr<FormChoice>> choices_;
  std::map<Name, Known> known_;
};

}  // namespace tunableop
