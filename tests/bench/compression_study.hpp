// Cost, savings and harm of a gradient code: a few ranks (threads, over the real gRPC fabric) train
// a built-in model with and without codes, from several seeds. The spread of the uncompressed seeds
// is the yardstick for the losses with a code. A seed chooses the initial parameters and the order
// of the text; the loss is that of the final parameters over a part of the text that no run trains
// on, the same for all. Used by the bench program and, small, by a test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "live/training/gradient_exchange.hpp"
#include "traces/workload/gradient_codec.hpp"

namespace orrery::live {

/// Parameters of the study.
struct Study {
  std::string builtin = "language-model";
  std::string text = "/usr/share/common-licenses";
  std::uint32_t ranks = 4;
  std::uint64_t steps = 800;
  std::uint64_t warm_up = 20;  ///< steps without a code
  std::uint32_t sequences = 2, length = 32;  ///< text of one rank and step
  double learning_rate = 0.003;  ///< initial value; falls linearly to 0
};

/// Result of one training.
struct StudyRun {
  double final_loss = 0;  ///< nats a byte
  double bytes = 0;       ///< sent by all ranks in one step with the code, as their sockets count
  bool equal = false;     ///< all ranks ended with the same parameters
};

/// One training run under `rules`.
StudyRun train(const Study& study, const std::vector<CodecRule>& rules, std::uint64_t seed);

/// The tensors of the study's model; one matrix of so many values.
std::vector<GradientTensor> model_tensors(const Study& study);
std::vector<GradientTensor> square_tensor(std::size_t count);

/// Median seconds of one exchange of a gradient between ranks whose cards send `bytes_per_second`
/// each; 0: as fast as it goes.
double exchange_seconds(std::uint32_t ranks, const std::vector<GradientTensor>& tensors,
                        const std::vector<CodecRule>& rules, double bytes_per_second, int repeats);

}  // namespace orrery::live
