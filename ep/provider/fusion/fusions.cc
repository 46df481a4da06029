#include "provider/fusion/fusions.h"

#include "provider/fusion/activation.h"
#include "provider/fusion/attention.h"
#include "provider/fusion/embedding.h"
#include "provider/fusion/masked_softmax.h"
#include "provider/fusion/norm.h"
#include "provider/fusion/product.h"
#include "provider/fusion/projections.h"
#include "provider/fusion/rotary.h"
#include "provider/fusion/scaled_cast.h"
#include "provider/fusion/shape_scalar.h"

namespace tunableop {

std::span<const Fusion> Fusions() noexcept {
  static const Fusion kFusions[] = {
      // What would be made on the CPU and copied.
      ShapeScalarFusion(),
      // Of attention.
      AttentionFusion(),
      AttentionTf32Fusion(),
      AttentionApartFusion(),
      MaskedSoftmaxFusion(),
      RotaryFusion(),
      // With a product.
      ProjectionsFusion(),
      ProductFusion(),
      EmbeddingFusion(),
      // Elementwise.
      ResidualNormFusion(),
      NormChainFusion(),
      GatedActivationFusion(),
      BiasActivationFusion(),
      ActivationFusion(),
      ScaledCastFusion(),
  };
  return kFusions;
}

}  // namespace tunableop
