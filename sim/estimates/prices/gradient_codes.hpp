// How an all-reduce of gradients travels under a policy's codes: bytes on the wire and time for the
// codes, by the formulas of policies/compression/gradient_codec that live mode's codecs follow too.
// Made by the stepper, asked when a plan is made. Immutable but for set_rules(); one thread.
// Seconds and bytes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/units.hpp"
#include "traces/scenario.pb.h"
#include "traces/training/gradient_codec.hpp"

namespace orrery::estimates {

/// An all-reduce as it is carried out.
struct Travel {
  double bytes = 0;           ///< size of what is summed, coded
  Seconds coding = {};        ///< of each rank
  bool in_two_steps = false;  ///< all-to-all of codes, then all-gather; else any algorithm
};

/// By codec; zeros: it costs no time.
using CodecSpeeds = std::array<CodecThroughput, 7>;

/// What is known without a measured machine: of one core for the built-in models, which live mode
/// trains on the CPU, else of a GPU with so much memory bandwidth.
CodecSpeeds known_speeds(const Job& job, double memory_bandwidth);

/// Of one value of a gradient as the job has it.
double gradient_value_bytes(const Job& job);
/// As live mode has it for the built-in models unless told otherwise: such a sum bears no codes.
bool summed_in_whole_numbers(const Scenario& scenario);

class GradientCodes {
 public:
  /// `job` resolved. `plain_bytes`: of one gradient value where no code is in force.
  GradientCodes(const Job& job, double plain_bytes, const CodecSpeeds& speeds);

  void set_rules(const std::vector<CodecRule>& rules) { rules_ = rules; }
  const std::vector<CodecRule>& rules() const { return rules_; }

  /// An all-reduce of `bytes` by the job's size of a gradient, among `ranks`.
  Travel travel(double bytes, std::uint32_t ranks) const;

 private:
  double value_bytes_, plain_bytes_;
  std::array<double, kBucketClasses> shares_{};  ///< of the gradient's values, by class
  CodecSpeeds speeds_;
  std::vector<CodecRule> rules_;
};

}  // namespace orrery::estimates
