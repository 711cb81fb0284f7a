// Which codes a run's gradients travelled in, and how many bytes that made: the `codecs` of a
// report. Both worlds tell it every committed step. Sizes are those of gradient_codec.hpp, tensor
// by tensor where the tensors are known. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "traces/report.pb.h"
#include "traces/scenario.pb.h"
#include "traces/training/gradient_codec.hpp"

namespace orrery {

/// A part of a gradient that may have a code of its own.
struct GradientPart {
  std::uint64_t count = 0;  ///< values
  std::uint32_t bucket_class = kMatrices;
  MatrixShape shape = {};  ///< as PowerSGD sees it; of a vector none
  bool operator==(const GradientPart&) const = default;
};

/// A built-in model's tensors, in their order; of any other model its classes, each as one.
std::vector<GradientPart> gradient_parts(const Model& model);

class CodecUses {
 public:
  /// `value_bytes`: of one value of the gradient where no code is in force.
  explicit CodecUses(std::vector<GradientPart> parts, double value_bytes = sizeof(float))
      : parts_(std::move(parts)), value_bytes_(value_bytes) {}

  /// So many committed steps: each of `ranks` replicas had a gradient in these codes. One alone
  /// sends nothing.
  void exchanged(std::span<const CodecRule> rules, std::uint32_t ranks, std::uint64_t steps = 1);
  void fill(Report& report) const;

 private:
  double code_bytes(const GradientPart& part, std::span<const CodecRule> rules) const;

  std::vector<GradientPart> parts_;
  double value_bytes_;
  std::vector<CodecUse> uses_;
};

}  // namespace orrery
