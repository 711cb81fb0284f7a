// Compression of a run's gradients and the resulting bytes: the `codecs` of a report. Both worlds
// add every committed step. Sizes are those of gradient_codec.hpp, tensor by tensor where the
// tensors are known. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "traces/report.pb.h"
#include "traces/scenario.pb.h"
#include "traces/training/gradient_codec.hpp"

namespace orrery {

/// Part of a gradient that may have a code of its own.
struct GradientPart {
  std::uint64_t count = 0;  ///< number of values
  std::uint32_t bucket_class = kMatrices;
  MatrixShape shape = {};  ///< matrix for PowerSGD; empty for a vector
  bool operator==(const GradientPart&) const = default;
};

/// Returns the parts of a model's gradient: the tensors of a built-in model in their order; for any
/// other model its classes, each as one part.
std::vector<GradientPart> gradient_parts(const Model& model);

/// Counter of the codes of a run's gradients and of their bytes.
class CodecUses {
 public:
  /// Constructs a counter. `value_bytes`: bytes of one gradient value without a code.
  explicit CodecUses(std::vector<GradientPart> parts, double value_bytes = sizeof(float))
      : parts_(std::move(parts)), value_bytes_(value_bytes) {}

  /// Adds `steps` committed steps in which each of `ranks` replicas sent a gradient in these codes.
  /// A single replica sends nothing.
  void add_steps(std::span<const CodecRule> rules, std::uint32_t ranks, std::uint64_t steps = 1);
  /// Writes the uses of each code.
  void fill(Report& report) const;

 private:
  double code_bytes(const GradientPart& part, std::span<const CodecRule> rules) const;

  std::vector<GradientPart> parts_;
  double value_bytes_;
  std::vector<CodecUse> uses_;
};

}  // namespace orrery
