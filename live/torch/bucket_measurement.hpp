// Measurement of one all-reduce as a gradient bucket, for the policies of `orrery run`. Compiled
// into the user's program.
#pragma once

#include <cstddef>
#include <vector>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "live/codec/gradient_meter.hpp"
#include "live/torch/group_worker.hpp"
#include "live/torch/operation.hpp"

namespace orrery::live {

/// Measurement of an all-reduce that the program calls now. Does nothing unless the call is a sum
/// in a backward pass of floating-point tensors, and the process measures its buckets
/// (GradientMeter). Constructed on the program's thread; the methods are called on the thread of
/// the group.
class BucketMeasurement {
 public:
  /// `records` must outlive this object. `ranks`: size of the group.
  BucketMeasurement(GroupRecords& records, std::size_t ranks,
                    const std::vector<at::Tensor>& tensors, c10d::ReduceOp op);

  /// Measures the rank's own values, if their squares are wanted.
  void note_own_values(const std::vector<at::Tensor>& values);
  /// Records the bytes that this rank has sent to others in the transfer of Operation::perform.
  void set_sent_bytes(double bytes) { bucket_.sent_bytes = bytes; }
  /// Ends the measurement: the sum of a group of full size is in the buffers of the operation.
  void end_bucket(const Operation& operation);

 private:
  GroupRecords& records_;
  const std::size_t ranks_;
  bool is_measured_ = false;
  MeasuredBucket bucket_;
};

}  // namespace orrery::live
