// Codes of the gradient buckets of a user's program under `orrery run`: which of its all-reduces
// travel in codes, and the bytes that this process has sent for gradients. Plain C++ without
// PyTorch, compiled into the user's program. Any thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "live/codec/coded_bucket.hpp"

namespace orrery::live {

/// Codes of one process. An all-reduce of fp32 values that the program calls in a backward pass is
/// a gradient bucket; buckets are numbered by their calls in each pass, and keep their memory of
/// error feedback from pass to pass.
class GradientCodes {
 public:
  /// Sets the code of all buckets from the next call on; `none` stops coding. Values that earlier
  /// codes have left out are dropped if the rule or the size of a bucket changes.
  void set_rule(const CodecRule& rule);
  /// Marks the begin of a backward pass.
  void begin_backward();
  /// Marks its end.
  void end_backward();
  /// Returns true between begin_backward() and end_backward().
  bool is_in_backward();
  /// Returns the bucket for an all-reduce of `count` fp32 values that the program calls now in the
  /// group with key `group`; null if the values travel as they are.
  std::shared_ptr<CodedBucket> claim_bucket(const std::string& group, std::size_t count);

  /// Adds bytes that this process has sent to others for gradients.
  void add_sent_bytes(double bytes);
  /// Returns the bytes so far.
  double sent_bytes();

 private:
  std::mutex mutex_;
  CodecRule rule_;
  bool is_in_backward_ = false;
  std::map<std::string, std::size_t> next_;  ///< number of the next bucket, by group
  std::map<std::pair<std::string, std::size_t>, std::shared_ptr<CodedBucket>> buckets_;
  double sent_bytes_ = 0;
};

}  // namespace orrery::live
