// Counts of the compression of a run's gradients: the `codecs` of a report. Simulated and live runs
// add every committed step. Sizes in bytes are computed by gradient_codec.hpp, for each tensor if
// the tensors are known. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "traces/report.pb.h"
#include "traces/scenario.pb.h"
#include "traces/workload/gradient_codec.hpp"

namespace orrery {

/// Part of a gradient with one code: a tensor, or all tensors of a class.
struct GradientPart {
  std::uint64_t count = 0;  ///< number of values
  std::uint32_t bucket_class = kMatrices;
  MatrixShape shape = {};  ///< rows and columns for PowerSGD; empty for a vector
  bool operator==(const GradientPart&) const = default;
};

/// Returns the parts of a model's gradient: for a built-in model its tensors in the order of the
/// training program, for any other model one part for each class of buckets with values, in the
/// order embeddings, vectors, matrices; empty for a model without values. The model must be
/// resolved. Throws bad_input for an unknown built-in model.
std::vector<GradientPart> gradient_parts(const Model& model);

/// Counter of the bytes of a run's gradients before and after compression, by codec and bucket
/// class. For example, one step of 4 replicas with 1000 values in int8 adds 16,000 gradient bytes
/// and about 4,000 code bytes.
class CodecUses {
 public:
  /// Constructs a counter for these parts. `value_bytes`: bytes that one value takes on the wire in
  /// a step without rules; the bytes before compression always count values in fp32.
  explicit CodecUses(std::vector<GradientPart> parts, double value_bytes = sizeof(float))
      : parts_(std::move(parts)), value_bytes_(value_bytes) {}

  /// Adds `steps` committed steps in which each of `ranks` replicas sent its gradient compressed by
  /// `rules` (empty: uncompressed, counted under the codec `none`). Adds nothing for fewer than two
  /// ranks, because a single replica sends nothing.
  void add_steps(std::span<const CodecRule> rules, std::uint32_t ranks, std::uint64_t steps = 1);
  /// Appends one entry to report.codecs() for each codec and class of buckets that was added, in
  /// the order of their first use; nothing before the first add_steps(). The counts stay.
  void fill(Report& report) const;
  /// Returns the counts of all steps so far.
  const std::vector<CodecUse>& uses() const { return uses_; }
  /// Replaces the counts by those of another counter of equal parts.
  void set_uses(std::vector<CodecUse> uses) { uses_ = std::move(uses); }

 private:
  double code_bytes(const GradientPart& part, std::span<const CodecRule> rules) const;

  std::vector<GradientPart> parts_;
  double value_bytes_;
  std::vector<CodecUse> uses_;
};

}  // namespace orrery
