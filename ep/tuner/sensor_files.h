// Reading the small files of sysfs and procfs, whatever is in them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/sensors.h"

namespace tunableop::sensor_files {

// The content, without blanks at its end. Nothing: absent, not permitted, no regular file (a
// directory, a pipe: never waits), or longer than `max_bytes`.
std::optional<std::string> ReadText(const std::filesystem::path& path, size_t max_bytes = 4096);

// `text` as a whole is one number; nothing else.
std::optional<double> ToNumber(std::string_view text);

// The number in the file times `scale`, if it lies in [lowest, highest]: drivers report sensors
// that are broken or switched off as 0, -274000 or the like.
std::optional<double> ReadNumber(const std::filesystem::path& path, double scale, double lowest,
                                 double highest);

// The entries of a folder whose names start and end so, sorted by the number between (card2 before
// card10); those with anything but a number there are left out. Empty: no such folder.
std::vector<std::filesystem::path> Numbered(const std::filesystem::path& folder,
                                            std::string_view prefix, std::string_view suffix = "");

// What a sensor may say: degrees Celsius and MHz.
inline constexpr double kLowestCelsius = -50.0;
inline constexpr double kHighestCelsius = 150.0;
inline constexpr double kLowestMhz = 1.0;
inline constexpr double kHighestMhz = 20'000.0;
// Watts of one card.
inline constexpr double kHighestWatts = 20'000.0;

// Files in thousandths of a degree (hwmon, thermal zones).
std::optional<double> ReadCelsius(const std::filesystem::path& path);

// Sensors that read files. Stateless.
class FileSensors : public Sensors {
 public:
  MachineState Read() const noexcept final;

 private:
  // May throw when memory runs out: what was not read by then is missing.
  virtual void ReadInto(MachineState& state) const = 0;
};

// TUNABLEOP_SENSORS_ROOT, if it is set and `root` is "/"; else `root`. For tests.
std::filesystem::path RootOr(const std::filesystem::path& root);

}  // namespace tunableop::sensor_files
