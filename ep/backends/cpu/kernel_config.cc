#include "backends/cpu/kernel_config.h"

#include <charconv>
#include <optional>

#include "backends/cpu/instruction_sets.h"

namespace tunableop::cpu {
namespace {

// Block sizes beyond this only come from a damaged file.
constexpr int64_t kMaxNumber = int64_t{1} << 30;

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0 ||
      value > kMaxNumber) {
    return std::nullopt;
  }
  return value;
}

// Cuts the text up to the next '/' off `rest`.
std::string_view NextPart(std::string_view* rest) {
  const size_t slash = rest->find('/');
  const std::string_view part = rest->substr(0, slash);
  *rest = slash == std::string_view::npos ? std::string_view() : rest->substr(slash + 1);
  return part;
}

bool ParseTile(std::string_view part, KernelConfig* config) {
  if (part == "dot") {
    config->dot = true;
    return true;
  }
  const size_t cross = part.find('x');
  if (cross == std::string_view::npos) return false;
  const auto rows = Number(part.substr(0, cross));
  const auto columns = Number(part.substr(cross + 1));
  if (!rows || !columns || *columns % config->kernels->width != 0) return false;
  const int64_t vectors = *columns / config->kernels->width;
  if (vectors > kMaxTileVectors || *rows > config->kernels->max_rows[vectors]) return false;
  config->rows = static_cast<int>(*rows);
  config->vectors = static_cast<int>(vectors);
  return true;
}

bool ParseOption(std::string_view part, KernelConfig* config) {
  if (const auto split = ParseSplit(part)) {
    config->split = *split;
    return true;
  }
  if (part == "pb") return config->pack_b = true;
  if (part == "pa") return config->pack_a = true;
  if (part == "nx") return config->ahead = true;
  const auto number = Number(part.size() > 2 ? part.substr(2) : std::string_view());
  if (!number) return false;
  if (part.starts_with("kc")) {
    config->kc = *number;
  } else if (part.starts_with("mc")) {
    config->mc = *number;
  } else if (part.starts_with("pf")) {
    config->prefetch = *number;
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string ToName(const KernelConfig& config) {
  std::string name(config.kernels->name);
  const auto add = [&name](const char* text, int64_t number) {
    name += text;
    name += std::to_string(number);
  };
  if (config.dot) {
    name += ":dot";
  } else {
    add(":", config.rows);
    add("x", int64_t{config.vectors} * config.kernels->width);
  }
  if (config.kc > 0) add("/kc", config.kc);
  if (config.mc > 0) add("/mc", config.mc);
  name += '/';
  name += Name(config.split);
  if (config.pack_b) name += "/pb";
  if (config.pack_a) name += "/pa";
  if (config.prefetch > 0) add("/pf", config.prefetch);
  if (config.ahead) name += "/nx";
  return name;
}

Result<KernelConfig> ParseName(std::string_view name) {
  const auto wrong = [name](const char* why) {
    return Status(StatusCode::kNotFound, "native kernel '" + std::string(name) + "': " + why);
  };
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return wrong("no instruction set");
  KernelConfig config;
  config.kernels = FindKernels(name.substr(0, colon));
  if (config.kernels == nullptr) return wrong("this machine lacks the instruction set");
  std::string_view rest = name.substr(colon + 1);
  if (!ParseTile(NextPart(&rest), &config)) return wrong("no such register tile");
  while (!rest.empty()) {
    if (!ParseOption(NextPart(&rest), &config)) return wrong("unknown option");
  }
  // One kernel has one name: a choice on file must not exist under two.
  if (ToName(config) != name) return wrong("not in the canonical form");
  return config;
}

}  // namespace tunableop::cpu
