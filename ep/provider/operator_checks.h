// What is checked of a node beyond its opset and the type of one input: for operators.cc.
#pragma once

#include <optional>
#include <string>

#include "provider/node_view.h"

namespace tunableop {

// Each: why the node cannot be taken, in words; nullopt: it can.

// Input 1 is of input 0's type.
std::optional<std::string> SecondTypeDiffers(const NodeView& node);
// The output's type is none to calculate with, or the kernel does not do what is asked.
std::optional<std::string> CastsToOthers(const NodeView& node);

// Of operators that normalise: input 1 is not of input 0's type, or statistics are asked for that
// the kernel does not give.
std::optional<std::string> NormOfOthers(const NodeView& node);

// Of the operators of attention: what they ask for beside what their kernel does.
std::optional<std::string> AttentionOfOthers(const NodeView& node);
std::optional<std::string> GroupedOfOthers(const NodeView& node);
std::optional<std::string> MultiHeadOfOthers(const NodeView& node);
std::optional<std::string> ProjectedOfOthers(const NodeView& node);  // with its own product

// Of RotaryEmbedding, of both domains.
std::optional<std::string> RotaryOfOthers(const NodeView& node);
// Of Conv and of pools: other than one to three dimensions.
std::optional<std::string> ConvOfOthers(const NodeView& node);
std::optional<std::string> PoolOfOthers(const NodeView& node);
// Of operators that normalise channels: statistics of this run, types of their own.
std::optional<std::string> ChannelsOfOthers(const NodeView& node);
// Of Einsum: neither one product nor another order of one operand.
std::optional<std::string> NoProduct(const NodeView& node);
// Of Resize: neither the nearest element nor those around; places outside; sizes that are bounds.
std::optional<std::string> ResizeOfOthers(const NodeView& node);
// Of FusedMatMul.
std::optional<std::string> TransposedBatches(const NodeView& node);
// Indices that are no int32 or int64.
std::optional<std::string> OneHotOfOthers(const NodeView& node);

// Of Mod: floating point with the divisor's sign, which no definition before opset 28 has.
std::optional<std::string> ModOfFloats(const NodeView& node);
// Input 1 is no int32 or int64.
std::optional<std::string> IndicesAreOthers(const NodeView& node);
// The same, or what is written is to be combined with what is there.
std::optional<std::string> ScattersOtherwise(const NodeView& node);
// Output 0 is of a type that no card's memory holds.
std::optional<std::string> MakesOthers(const NodeView& node);

}  // namespace tunableop
