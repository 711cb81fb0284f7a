// Costs of gradient codecs in simulated all-reduces: bytes on the wire and codec time, by the
// formulas of traces/workload/gradient_codec that live mode's codecs follow too. Owned by the
// stepper and read when a plan is made. One thread. Seconds and bytes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/units.hpp"
#include "traces/scenario.pb.h"
#include "traces/workload/gradient_codec.hpp"

namespace orrery::estimates {

/// All-reduce of gradients as it is executed under the codecs.
struct Travel {
  double bytes = 0;           ///< coded size of the summed buffer
  Seconds coding = {};        ///< codec time of each rank
  bool in_two_steps = false;  ///< true: all-to-all of codes, then all-gather; false: any algorithm
};

/// Throughput by codec; zeros: the codec costs no time.
using CodecSpeeds = std::array<CodecThroughput, 7>;

/// Returns codec throughputs without a measured machine: of one CPU core for the built-in models,
/// which live mode trains on the CPU, else of a GPU with `memory_bandwidth` bytes per second.
CodecSpeeds known_speeds(const Job& job, double memory_bandwidth);

/// Returns the bytes of one gradient value: Job.gradient_bytes, or if 0, 4 for built-in models and
/// fp32, else 2.
double gradient_value_bytes(const Job& job);
/// Returns true if live mode sums the gradients in whole numbers, as is the default for the
/// built-in models; such a sum supports no codecs.
bool summed_in_whole_numbers(const Scenario& scenario);

/// Translation of an all-reduce's size into coded bytes and codec time under a policy's rules.
/// Immutable except for set_rules(); not thread-safe.
///
/// For example, an int8 code of a 2-byte gradient halves the bytes (plus block scales) and turns
/// the all-reduce into an all-to-all and an all-gather.
class GradientCodes {
 public:
  /// Reads the gradient classes of `job`, which must be resolved. `plain_bytes`: bytes of a
  /// gradient value that no code covers; 0: those of the job. No rules apply until set_rules().
  GradientCodes(const Job& job, double plain_bytes, const CodecSpeeds& speeds);

  /// Replaces the rules; later calls of coded_all_reduce() use them.
  void set_rules(const std::vector<CodecRule>& rules) { rules_ = rules; }
  /// Returns the rules of the newest set_rules(); empty before.
  const std::vector<CodecRule>& rules() const { return rules_; }

  /// Returns the execution of an all-reduce among `ranks` of `bytes`, measured in the job's
  /// gradient size. Without rules the values travel uncoded, each in `plain_bytes`, in any
  /// algorithm.
  Travel coded_all_reduce(double bytes, std::uint32_t ranks) const;

 private:
  double value_bytes_, plain_bytes_;
  std::array<double, kBucketClasses> shares_{};  ///< share of the gradient's values by class
  CodecSpeeds speeds_;
  std::vector<CodecRule> rules_;
};

}  // namespace orrery::estimates
