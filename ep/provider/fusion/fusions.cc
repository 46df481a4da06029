#include "provider/fusion/fusions.h"

#include "provider/fusion/activation.h"
#include "provider/fusion/attention.h"
#include "provider/fusion/masked_softmax.h"
#include "provider/fusion/norm.h"
#include "provider/fusion/product.h"

namespace tunableop {

std::span<const Fusion> Fusions() noexcept {
  static const Fusion kFusions[] = {
      AttentionFusion(), MaskedSoftmaxFusion(),   ProductFusion(),        ResidualNormFusion(),
      NormChainFusion(), GatedActivationFusion(), BiasActivationFusion(), ActivationFusion(),
  };
  return kFusions;
}

}  // namespace tunableop
