// Compiled once for each flavour, with SIM_FLAVOUR.
#include "core/flavour.h"

namespace simgpu {
namespace {

constexpr Flavour kFlavours[] = {
    {"cuda12", false, 12080, 12090, 120804, "", "", 0},
    {"cuda13", false, 13000, 13010, 130100, "", "", 0},
    {"rocm6", true, 60342134, 60342134, 1200, "6b8f0e2c1d", "4.3.0.sim6", 6},
    {"rocm7", true, 70151831, 70151831, 100100, "a3c5d7e9f1", "5.0.0.sim7", 7},
    {"rocm10", true, 71551200, 71551200, 100500, "c0ffee1234", "5.4.0.sim10", 10},
};

}  // namespace

const Flavour& ThisFlavour() { return kFlavours[SIM_FLAVOUR]; }

}  // namespace simgpu
