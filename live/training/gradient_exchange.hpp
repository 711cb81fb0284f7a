// The gradient exchange of a training step: sums the ranks' gradients, each bucket in the code that
// a policy's table asks for. fp32 buckets go round the fabric's ring. Coded ones take two steps, so
// that the bytes do not grow with the ranks: every rank sends each other rank the code of that
// rank's part (all-to-all), the parts are summed in fp32 in the order of the ranks, and the sum is
// coded again and sent to all (all-gather). Every rank decodes the same bytes, so all end with the
// same bits. PowerSGD sums its two factors over the ring instead (arXiv 1905.13727).
//
// Buckets flow through as a pipeline: while one is summed the next is encoded. start() lets that
// happen on a thread of its own beside the backward pass, as buckets are released. One thread calls
// this; nothing else may use the fabric between start() and finish().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/ids.hpp"
#include "live/codec/codec.hpp"
#include "live/codec/power_sgd.hpp"
#include "live/fabric/fabric.hpp"
#include "live/machine/host_clock.hpp"
#include "live/training/network.hpp"

namespace orrery::live {

/// A slice of the gradient that may have a code of its own.
struct GradientTensor {
  std::size_t offset = 0, rows = 0, columns = 0;
  std::uint32_t bucket_class = kMatrices;
  std::size_t size() const { return rows * columns; }
};

/// A model's tensors with their classes: embedding tables by their name, vectors by their shape.
std::vector<GradientTensor> gradient_tensors(std::span<const Tensor> tensors);

/// What travels as one: neighbouring tensors with the same rule, or (PowerSGD) one matrix.
struct GradientBucket {
  std::size_t offset = 0, count = 0;
  std::size_t rows = 0, columns = 0;  ///< of the last tensor taken in
  CodecRule rule;
};

/// Cuts the gradient into buckets of at most `bucket_bytes` fp32 bytes (one tensor at least; 0: no
/// limit). With one rule for all and buckets large enough, that is the whole gradient as one.
std::vector<GradientBucket> cut_buckets(std::span<const GradientTensor> tensors,
                                        std::span<const CodecRule> rules, double bucket_bytes);

class GradientExchange {
 public:
  /// `tensors` cover the gradient without gaps, in order.
  GradientExchange(std::vector<GradientTensor> tensors, double bucket_bytes);
  ~GradientExchange();

  /// One exchange: which, among whom, in which codes.
  struct Order {
    Step step = 0;
    std::uint64_t epoch = 0;  ///< counts memberships
    std::span<const CodecRule> rules;
  };
  /// Replaces `gradient` by its sum over the fabric's ranks. A call for the step of the call before
  /// repeats it: what that call remembered for error feedback is forgotten. With a new epoch or
  /// other rules, what was left out so far is added to this gradient, and codes start afresh.
  /// Throws FabricBroken.
  void reduce(Fabric& fabric, const Order& order, std::span<float> gradient);

  /// The same beside the caller: bucket i of n, counted from the end of the gradient (backward
  /// passes end at the first layer), is sent when the share (i + 1) / n of the time from `begin` to
  /// `end` has passed. The gradient is final already; finish() waits, and throws what went wrong.
  void start(Fabric& fabric, const Order& order, std::span<float> gradient,
             Clock::time_point begin, Clock::time_point end);
  void finish();

  /// Gives up a start() that nobody will finish, and breaks its fabric, which is still there.
  void cancel();

  /// Of the last call: variance of a rank's gradient over the ranks as a share of the mean's square
  /// (0 with one rank), from this rank's norm and the sum's, both before coding.
  double gradient_variance() const { return variance_; }
  /// What summed the largest bucket without a code; automatic: all had one, or the fabric does not
  /// say. To be asked while the last call's fabric is there.
  CollectiveAlgorithm algorithm() const;
  /// How long the last one took, from the release of its first bucket on.
  double seconds() const { return seconds_; }

 private:
  struct Bucket;
  struct Memory;
  void prepare(Fabric& fabric, const Order& order, std::span<float> gradient);
  void run(std::span<float> gradient);
  void wait_for_release(std::size_t bucket);
  void send_parts(Bucket& bucket, std::span<float> values);
  void send_sum(Bucket& bucket, std::span<float> values);
  void receive_sums(Bucket& bucket, std::span<float> values);
  void reduce_factors(Bucket& bucket, std::span<float> values);

  Fabric* fabric_ = nullptr;  ///< of the exchange under way
  const std::vector<GradientTensor> tensors_;
  const double bucket_bytes_;
  std::unique_ptr<Memory> committed_, pending_;
  double variance_ = 0, seconds_ = 0;
  Clock::time_point begin_{}, end_{};

  std::mutex mutex_;  // of the two below
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::jthread beside_;
  std::exception_ptr failure_;
};

}  // namespace orrery::live
