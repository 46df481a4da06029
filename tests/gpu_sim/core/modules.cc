#include "core/modules.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

#include "core/card.h"
#include "core/cost.h"
#include "core/faults.h"
#include "core/flavour.h"
#include "core/stream.h"

namespace simgpu {
namespace {

constexpr std::string_view kMagic = "\x7fSIMCODE ";
constexpr size_t kLongest = 512;
constexpr uint32_t kThreads = 1024;    // of a block
constexpr uint32_t kBlocksYZ = 65535;  // of a grid, in y and z
constexpr double kMs = 0.004;          // of any kernel
// A word that is no pointer may look like one of memory that is gone: a number of 32 bits, and
// behind it what happens to lie where its struct has nothing. No number at the end of one is
// larger.
constexpr uintptr_t kLargestNumber = 1 << 16;

struct Module;
struct Function {
  Module* module;
  std::string name;
  Kernel kernel;
};
struct Module {
  Card* card;
  Code code;
  std::map<std::string, std::unique_ptr<Function>, std::less<>> functions;
};

struct State {
  std::mutex mutex;
  std::map<void*, std::unique_ptr<Module>> modules;
  std::map<void*, Function*> functions;
};
State& TheState() {
  static auto* const state = new State;
  return *state;
}

// What code of `arch` a card takes. A card runs PTX of its own generation and of older ones.
bool Fits(const Card& card, std::string_view arch) {
  if (ThisFlavour().amd) return card.arch == arch || card.arch.starts_with(std::string(arch) + ":");
  constexpr std::string_view kVirtual = "compute_";
  if (!arch.starts_with(kVirtual)) return card.arch == arch;
  const int own = std::stoi(card.arch.substr(3));
  return std::stoi(std::string(arch.substr(kVirtual.size()))) <= own;
}

// What lies around an allocation that a kernel was given, to see whether it wrote there.
struct Fence {
  Arena::Whole block;
  std::string before;
};

double Illegal(Card& card) {
  Count("illegal_address");
  card.lost = Err::kIllegalAddress;
  return 0;
}

double RunKernel(Card& card, const Function& function, std::vector<char> args, Blocks grid) {
  Count("device_kernels");
  Count("device_kernels:" + function.name);
  if (FaultOn("hang_kernel")) Hang("hang_kernel");
  std::vector<Fence> fences;
  for (size_t at = 0; at + sizeof(void*) <= args.size(); at += sizeof(void*)) {
    void* address = nullptr;
    std::memcpy(static_cast<void*>(&address), args.data() + at, sizeof address);
    if (OwnerOf(address) == nullptr) continue;
    const Arena::Whole block = card.memory.BlockOf(address);
    if (block.view == nullptr) {
      if (reinterpret_cast<uintptr_t>(address) % (uintptr_t{1} << 32) < kLargestNumber) continue;
      return Illegal(card);
    }
    char* const view = block.view + (static_cast<char*>(address) - block.address);
    std::memcpy(args.data() + at, static_cast<const void*>(&view), sizeof view);
    fences.push_back({block, block.Gaps()});
  }
  function.kernel.run(function.kernel.function, args.data(), grid);
  for (const Fence& fence : fences) {
    if (fence.block.Gaps() != fence.before) return Illegal(card);
  }
  for (const Fence& fence : fences) card.cache.Touch(fence.block.address, fence.block.bytes);
  double factor = 1;
  if (FaultOn("slow_loaded")) factor *= static_cast<double>(FaultArgument("slow_loaded", 0, 10));
  if (function.name.starts_with("attention") && FaultOn("slow_attention")) {
    factor *= static_cast<double>(FaultArgument("slow_attention", 0, 10));
  }
  return kMs * factor * Noise();
}

}  // namespace

std::string Pack(const Code& code) {
  std::string text(kMagic);
  text += code.arch + " " + code.family + " " + code.t0 + " " + code.t1;
  text += '\0';
  return text;
}

Err LoadModule(const void* image, void** module) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  if (const Err error = ForbiddenInCapture(); error != Err::kOk) return error;
  if (image == nullptr || module == nullptr) return Err::kInvalidValue;
  if (FaultOn("module_fails")) return Err::kUnfitImage;
  if (FaultOn("module_oom")) return Err::kOutOfMemory;
  const char* const bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, kMagic.data(), kMagic.size()) != 0) return Err::kUnfitImage;
  const std::string text(bytes + kMagic.size(), strnlen(bytes + kMagic.size(), kLongest));
  auto made = std::make_unique<Module>();
  made->card = &CurrentCard();
  std::istringstream words(text);
  if (!(words >> made->code.arch >> made->code.family >> made->code.t0 >> made->code.t1)) {
    return Err::kUnfitImage;
  }
  if (!Fits(*made->card, made->code.arch)) return Err::kUnfitCard;
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  *module = made.get();
  state.modules.emplace(*module, std::move(made));
  Count("modules");
  return Err::kOk;
}

Err UnloadModule(void* module) {
  if (const Err error = ForbiddenInCapture(); error != Err::kOk) return error;
  State& state = TheState();
  std::unique_ptr<Module> gone;
  {
    const std::lock_guard lock(state.mutex);
    const auto found = state.modules.find(module);
    if (found == state.modules.end()) return Err::kInvalidHandle;
    gone = std::move(found->second);
    state.modules.erase(found);
    for (const auto& [name, function] : gone->functions) state.functions.erase(function.get());
  }
  Count("modules_unloaded");
  return SynchronizeCard();  // what is queued still needs it
}

Err FindFunction(void* module, const char* name, void** function) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto found = state.modules.find(module);
  if (found == state.modules.end()) return Err::kInvalidHandle;
  if (name == nullptr || function == nullptr) return Err::kInvalidValue;
  Module& in = *found->second;
  const auto known = in.functions.find(name);
  if (known != in.functions.end()) {
    *function = known->second.get();
    return Err::kOk;
  }
  auto made = std::make_unique<Function>(Function{&in, name, {}});
  if (!FindKernel(in.code.family, in.code.t0, in.code.t1, name, &made->kernel)) {
    return Err::kNotFound;
  }
  *function = made.get();
  state.functions.emplace(*function, made.get());
  in.functions.emplace(name, std::move(made));
  return Err::kOk;
}

Err LaunchFunction(void* handle, Blocks grid, Blocks block, void* stream, void** parameters) {
  std::shared_ptr<Stream> on;
  if (const Err error = FindStream(stream, &on); error != Err::kOk) return error;
  Function function;
  {
    State& state = TheState();
    const std::lock_guard lock(state.mutex);
    const auto found = state.functions.find(handle);
    if (found == state.functions.end()) return Err::kInvalidHandle;
    function = *found->second;
    if (function.module->card != &on->card) return Err::kInvalidHandle;
  }
  if (&CurrentCard() != &on->card) return Err::kInvalidHandle;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kThreads || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.y > kBlocksYZ || grid.z > kBlocksYZ || grid.x > INT32_MAX) {
    return Err::kInvalidValue;
  }
  if (parameters == nullptr || parameters[0] == nullptr) return Err::kInvalidValue;
  if (FaultOn("launch_fails")) return Err::kOutOfResources;
  const auto* const from = static_cast<const char*>(parameters[0]);
  std::vector<char> args(from, from + function.kernel.args_bytes);
  Count("launches");
  return Enqueue(on, [function, args = std::move(args), grid](Card& card) {
    return RunKernel(card, function, args, grid);
  });
}

}  // namespace simgpu
