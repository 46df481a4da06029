#include "provider/fusion/fusions.h"

#include "provider/fusion/product.h"

namespace tunableop {

std::span<const Fusion> Fusions() noexcept {
  static const Fusion kFusions[] = {
      ProductFusion(),
  };
  return kFusions;
}

}  // namespace tunableop
