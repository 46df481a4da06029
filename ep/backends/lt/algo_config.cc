#include "backends/lt/algo_config.h"

#include <charconv>
#include <system_error>

namespace tunableop::lt {
namespace {

// Takes `prefix` and a number off the front of `text`.
template <typename T>
bool Take(std::string_view& text, std::string_view prefix, T& number) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const char* const begin = text.data();
  const auto [rest, error] = std::from_chars(begin, begin + text.size(), number);
  if (error != std::errc() || rest == begin) return false;
  text.remove_prefix(static_cast<size_t>(rest - begin));
  return true;
}

}  // namespace

std::string ToName(const AlgoConfig& c) {
  return std::to_string(c.id) + ":t" + std::to_string(c.tile) + ".s" + std::to_string(c.stages) +
         ".k" + std::to_string(c.split_k) + ".r" + std::to_string(c.reduction) + ".w" +
         std::to_string(c.swizzle) + ".c" + std::to_string(c.custom) + ".i" +
         std::to_string(c.inner) + ".u" + std::to_string(c.cluster);
}

std::optional<AlgoConfig> ParseName(std::string_view name) {
  AlgoConfig c;
  if (Take(name, "", c.id) && Take(name, ":t", c.tile) && Take(name, ".s", c.stages) &&
      Take(name, ".k", c.split_k) && Take(name, ".r", c.reduction) && Take(name, ".w", c.swizzle) &&
      Take(name, ".c", c.custom) && Take(name, ".i", c.inner) && Take(name, ".u", c.cluster) &&
      name.empty()) {
    return c;
  }
  return std::nullopt;
}

}  // namespace tunableop::lt
