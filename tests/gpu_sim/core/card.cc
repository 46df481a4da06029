#include "core/card.h"

#include <cstdio>
#include <cstdlib>

#include "core/faults.h"
#include "core/flavour.h"
#include "core/stream.h"

namespace simgpu {
namespace {

constexpr int kNoContext = -1;

thread_local int current = 0;
thread_local int context = kNoContext;  // the card whose context this thread has
thread_local Err last_error = Err::kOk;

size_t FromEnvironment(const char* name, size_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 0);
}

bool Sticky(Err error) { return error == Err::kIllegalAddress || error == Err::kDeviceLost; }

}  // namespace

bool CacheModel::Touch(const void* address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = touched_.find(address);
  const bool warm = found != touched_.end() && total_ - found->second <= bytes_ && bytes <= bytes_;
  total_ += bytes;
  if (touched_.size() > 4096) touched_.clear();
  touched_[address] = total_;
  return warm;
}

Card::Card(int number, size_t bytes, size_t cache_bytes)
    : ordinal(number), memory(bytes), cache(cache_bytes) {
  char bus[32];
  if (ThisFlavour().amd) {
    name = "Simulated MI300X";
    arch = "gfx942:sramecc+:xnack-";
    compute_units = 304;
    std::snprintf(bus, sizeof bus, "0000:%02x:00.0", 0xc3 + number);
  } else {
    name = "Simulated H200";
    const char* const other = std::getenv("SIM_GPU_ARCH");
    arch = other != nullptr ? other : "sm_90";
    compute_units = 132;
    std::snprintf(bus, sizeof bus, "0000:%02X:00.0", 0x1A + number);
  }
  pci_bus_id = bus;
  legacy = Stream::MakeLegacy(*this);
}

const std::vector<std::unique_ptr<Card>>& Cards() {
  static const auto* const cards = [] {
    auto* const made = new std::vector<std::unique_ptr<Card>>;
    const size_t count = FromEnvironment("SIM_GPU_CARDS", 2);
    const size_t memory = FromEnvironment("SIM_GPU_MEMORY", size_t{1} << 30);
    const size_t cache = FromEnvironment("SIM_GPU_CACHE", size_t{4} << 20);
    for (size_t i = 0; i < count; ++i) {
      made->push_back(std::make_unique<Card>(static_cast<int>(i), memory, cache));
    }
    return made;
  }();
  return *cards;
}

Err Usable() {
  if (FaultOn("no_driver")) return ThisFlavour().amd ? Err::kNoDevice : Err::kInsufficientDriver;
  if (FaultOn("old_driver")) return Err::kInsufficientDriver;
  if (FaultOn("no_cards") || Cards().empty()) return Err::kNoDevice;
  return Err::kOk;
}

Err CheckOrdinal(int ordinal) {
  if (const Err error = Usable(); error != Err::kOk) return error;
  const bool good = ordinal >= 0 && static_cast<size_t>(ordinal) < Cards().size();
  return good ? Err::kOk : Err::kInvalidDevice;
}

Err SetCurrent(int ordinal) {
  const Err error = CheckOrdinal(ordinal);
  if (error == Err::kOk) current = context = ordinal;
  return error;
}

int Current() { return current; }

Card& CurrentCard() { return *Cards()[static_cast<size_t>(current)]; }

const char* NameOf(int ordinal) {
  if (CheckOrdinal(ordinal) != Err::kOk) return nullptr;
  return Cards()[static_cast<size_t>(ordinal)]->name.c_str();
}

Err Healthy() {
  if (const Err error = Usable(); error != Err::kOk) return error;
  context = current;
  return CurrentCard().lost.load();
}

bool HasContext() { return context == current; }

Card* OwnerOf(const void* address) {
  for (const std::unique_ptr<Card>& card : Cards()) {
    if (card->memory.Contains(address)) return card.get();
  }
  return nullptr;
}

char* Reach(Card& card, const void* address, size_t bytes) {
  if (char* const view = card.memory.View(address, bytes)) return view;
  if (IsPinned(address, bytes)) return static_cast<char*>(const_cast<void*>(address));
  return nullptr;
}

void Remember(Err error) {
  if (error != Err::kOk) last_error = error;
}

Err LastError(bool forget) {
  if (Usable() == Err::kOk) {
    if (const Err lost = CurrentCard().lost.load(); lost != Err::kOk) return lost;
  }
  const Err error = Sticky(last_error) ? Err::kOk : last_error;
  if (forget) last_error = Err::kOk;
  return error;
}

}  // namespace simgpu
