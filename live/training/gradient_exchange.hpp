// Gradient exchange of a training step: sums the ranks' gradients, each bucket with the code of the
// policy's table. fp32 buckets use the fabric's ring. Compressed buckets take two steps, so that
// the bytes do not grow with the ranks: every rank sends each other rank the code of that rank's
// part (all-to-all), the parts are summed in fp32 in the order of the ranks, and the sum is coded
// again and sent to all (all-gather). Every rank decodes the same bytes, so all end with the same
// bits. PowerSGD sums its two factors over the ring instead (arXiv 1905.13727). Buckets form a
// pipeline: while one is summed, the next is encoded. start() runs the pipeline on a thread of its
// own beside the backward pass, as buckets are released. One thread calls the methods; nothing else
// may use the fabric between start() and finish_exchange().
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

/// Slice of the gradient that may have a code of its own.
struct GradientTensor {
  std::size_t offset = 0, rows = 0, columns = 0;
  std::uint32_t bucket_class = kMatrices;
  /// Returns the number of values.
  std::size_t size() const { return rows * columns; }
};

/// Returns a model's tensors, in the same order, with their classes: kVectors for one row or one
/// column, kEmbeddings for a matrix whose name contains "embedding", otherwise kMatrices.
std::vector<GradientTensor> gradient_tensors(std::span<const Tensor> tensors);

/// Unit of transfer: neighbouring tensors with the same rule, or (PowerSGD) one matrix.
struct GradientBucket {
  std::size_t offset = 0, count = 0;
  std::size_t rows = 0, columns = 0;  ///< shape of the last tensor in the bucket
  CodecRule rule;
};

/// Cuts the gradient into buckets of at most `bucket_bytes` fp32 bytes (at least one tensor; 0: no
/// limit), in the order of the tensors. One rule for all tensors and a large limit give one bucket;
/// no tensors give none.
std::vector<GradientBucket> cut_buckets(std::span<const GradientTensor> tensors,
                                        std::span<const CodecRule> rules, double bucket_bytes);

/// Gradient exchange of one rank.
class GradientExchange {
 public:
  /// Constructs an exchange. `tensors` cover the gradient without gaps, in order. `bucket_bytes`:
  /// see cut_buckets().
  GradientExchange(std::vector<GradientTensor> tensors, double bucket_bytes);
  /// Cancels as cancel_exchange().
  ~GradientExchange();

  /// Parameters of one exchange: step, members, codes.
  struct Order {
    Step step = 0;
    std::uint64_t epoch = 0;  ///< membership epoch
    std::span<const CodecRule> rules;
  };
  /// Replaces `gradient`, of the size of the tensors, by its sum over the fabric's ranks, and
  /// blocks until this rank has the sum. All ranks call it with the same order. A repeated call for
  /// a step forgets the error feedback of the first call. After a new epoch or other rules, the
  /// values left out so far are added to this gradient, and codes start afresh. Throws
  /// FabricBroken, bad_input for a rule without a codec or bytes that are no code, and as
  /// Fabric::all_reduce(): `gradient` is undefined then, and the error feedback is that of the last
  /// complete exchange.
  void reduce(Fabric& fabric, const Order& order, std::span<float> gradient);

  /// Starts the same exchange beside the caller: bucket i of n, counted from the end of the
  /// gradient (backward passes end at the first layer), is sent when the fraction (i + 1) / n of
  /// the time from `begin` to `end` has passed. The gradient is final already, and must outlive the
  /// exchange, as must the fabric; `order.rules` are copied. Returns at once; throws bad_input for
  /// a rule without a codec, other errors of the exchange come from finish_exchange().
  /// finish_exchange() or cancel_exchange() must follow before the next exchange.
  void start(Fabric& fabric, const Order& order, std::span<float> gradient,
             Clock::time_point begin, Clock::time_point end);
  /// Blocks until the started exchange has ended; its gradient is then the sum. Throws its error,
  /// once; does nothing if none is started.
  void finish_exchange();

  /// Cancels a started exchange for which finish_exchange() has not been called, and aborts its
  /// fabric, which must still exist, even if all data has arrived by then. Waits for its thread and
  /// drops its error; does nothing if no exchange is started. The destructor cancels too.
  void cancel_exchange();

  /// Returns, for the last complete exchange, the sum of the squares of this rank's gradient, with
  /// the values that earlier codes left out and a new epoch has returned; 0 before the first.
  double own_square() const { return own_square_; }
  /// Returns, for the last complete exchange, the sum of the squares of the sum as decoded; 0
  /// before the first. Not finite if the gradient is not.
  double total_square() const { return total_square_; }
  /// Returns the algorithm that summed the largest uncompressed bucket; automatic if none exists or
  /// the fabric does not know. Call only after an exchange, while its fabric exists.
  CollectiveAlgorithm algorithm() const;
  /// Returns the duration of the last complete exchange in seconds, from the release of its first
  /// bucket on; 0 before the first.
  double seconds() const { return seconds_; }

 private:
  struct Bucket;
  struct Memory;
  void prepare_buckets(Fabric& fabric, const Order& order, std::span<float> gradient);
  void run(std::span<float> gradient);
  void wait_for_release(std::size_t bucket);
  void send_parts(Bucket& bucket, std::span<float> values);
  void send_sum(Bucket& bucket, std::span<float> values);
  void receive_sums(Bucket& bucket, std::span<float> values);
  void reduce_factors(Bucket& bucket, std::span<float> values);

  Fabric* fabric_ = nullptr;  ///< fabric of the current exchange
  const std::vector<GradientTensor> tensors_;
  const double bucket_bytes_;
  std::unique_ptr<Memory> committed_, pending_;
  double own_square_ = 0, total_square_ = 0, seconds_ = 0;
  Clock::time_point begin_{}, end_{};

  std::mutex mutex_;  // guards the two below
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::jthread beside_;
  std::exception_ptr failure_;
};

}  // namespace orrery::live
