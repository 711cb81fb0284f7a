// What a gradient code costs and saves, and whether it harms: a built-in model is trained by a few
// ranks (threads, over the real gRPC fabric) with and without codes, from several seeds. The spread
// of the uncompressed seeds is the yardstick for the losses with a code. Used by the bench program
// and, small, by a test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/compression/gradient_codec.hpp"

namespace orrery::live {

struct Study {
  std::string builtin = "language-model";
  std::string text = "/usr/share/common-licenses";
  std::uint32_t ranks = 2;
  std::uint64_t steps = 150;
  std::uint64_t warm_up = 0;  ///< steps without a code
  std::uint32_t sequences = 8, length = 64;  ///< of one rank and step
  double learning_rate = 0.003;
};

struct StudyRun {
  double final_loss = 0;      ///< nats a byte, mean over the last tenth of the steps
  double bytes = 0;           ///< sent by one rank in one step, as counted by the fabric
  double exchange_s = 0;      ///< median of the exchanges, as fast as it goes here
  bool equal = false;         ///< all ranks ended with the same parameters
};

/// One training run under `rules`.
StudyRun train(const Study& study, const std::vector<CodecRule>& rules, std::uint64_t seed);

/// Median seconds of one exchange of `count` values between ranks whose cards send
/// `bytes_per_second` each; 0: as fast as it goes.
double exchange_seconds(std::uint32_t ranks, std::size_t count, const std::vector<CodecRule>& rules,
                        double bytes_per_second, int repeats);

}  // namespace orrery::live
