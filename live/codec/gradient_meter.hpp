// Measurements of the gradient exchanges of a user's program under the policies of `orrery run`:
// bytes, durations, and the variance of the gradients between ranks. Plain C++ without PyTorch,
// compiled into the user's program. Any thread. Seconds of one monotonic clock, sizes in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>

namespace orrery::live {

/// All-reduce of one gradient bucket at one rank.
struct MeasuredBucket {
  std::size_t count = 0;  ///< values
  double issued_s = 0;    ///< instant of the program's call
  double ended_s = 0;     ///< instant of the result
  /// Begin and end of the transfer in the inner group; of two transfers, the first one.
  double begun_s = 0, done_s = 0;
  double sent_bytes = 0;  ///< bytes that the rank has sent to others in that transfer
  /// squares of the norms of the rank's own values, and of the sum of a group of full size; 0 for
  /// a sum that was not measured
  double own_square = 0, sum_square = 0;
};

/// Exchange of the gradients of one backward pass at one rank.
struct GradientExchange {
  double bytes = 0;  ///< size of the gradients in fp32; 0: none were exchanged
  double issued_s = 0, ended_s = 0;  ///< call and result of the bucket that was called last
  double begun_s = 0, done_s = 0;    ///< transfer of the largest bucket
  double sent_bytes = 0;             ///< bytes of that transfer
  /// Square of the norm of the rank's mean gradient over that of the mean of all ranks, minus 1;
  /// not a number: not measured in this pass.
  double variance = std::numeric_limits<double>::quiet_NaN();
};

/// Meter of one process. Measures nothing before start_measuring(). Example: a pass has buckets of
/// 1 MB and 25 MB. The second one is called 10 ms and done 30 ms after the begin of the pass:
/// 26 MB, with the instants of the second bucket.
class GradientMeter {
 public:
  /// Starts to measure.
  void start_measuring();
  /// Marks the begin of a backward pass.
  void begin_pass();
  /// Returns true if buckets are measured.
  bool is_measuring();
  /// Returns true if the squares of this pass are wanted, which are read from all values: of every
  /// eighth pass.
  bool wants_squares();
  /// Adds a bucket of the present pass, in a group of `ranks` ranks. The first bucket of a pass
  /// replaces the measurements of the previous one.
  void add_bucket(const MeasuredBucket& bucket, std::size_t ranks);
  /// Returns the newest pass with a bucket since the last call; bytes are 0 without one.
  GradientExchange drain_exchange();

 private:
  std::mutex mutex_;
  bool is_measuring_ = false, is_new_pass_ = true;
  std::uint64_t passes_ = 0;
  std::size_t largest_ = 0;  ///< values of the largest bucket of the pass
  double own_square_ = 0, sum_square_ = 0;
  bool has_squares_ = true;  ///< every bucket of the pass has its squares
  GradientExchange exchange_;
};

}  // namespace orrery::live
