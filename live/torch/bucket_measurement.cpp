#include "live/torch/bucket_measurement.hpp"

#include <ATen/ATen.h>

namespace orrery::live {
namespace {

/// Returns the sum of the squares of all fp32 values on the CPU; 0 for other tensors.
double square_of(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const at::Tensor& each : tensors) {
    if (each.scalar_type() != at::kFloat || !each.device().is_cpu()) return 0;
    const at::Tensor values = each.reshape({-1});
    sum += values.dot(values).item<double>();
  }
  return sum;
}

}  // namespace

BucketMeasurement::BucketMeasurement(GroupRecords& records, std::size_t ranks,
                                     const std::vector<at::Tensor>& tensors, c10d::ReduceOp op)
    : records_(records), ranks_(ranks) {
  const bool is_sum = op == c10d::ReduceOp::SUM;
  if (!is_sum || !records.meter.is_measuring() || !records.codes.is_in_backward()) return;
  for (const at::Tensor& each : tensors) {
    if (!at::isFloatingType(each.scalar_type())) return;
    bucket_.count += static_cast<std::size_t>(each.numel());
  }
  is_measured_ = bucket_.count > 0;
  bucket_.issued_s = clock_s();
}

void BucketMeasurement::note_own_values(const std::vector<at::Tensor>& values) {
  if (!is_measured_ || !records_.meter.wants_squares()) return;
  bucket_.own_square = square_of(values);
}

void BucketMeasurement::end_bucket(const Operation& operation) {
  if (!is_measured_) return;
  bucket_.ended_s = clock_s();
  bucket_.begun_s = operation.begun_s;
  bucket_.done_s = operation.done_s;
  if (bucket_.own_square > 0) bucket_.sum_square = square_of(operation.buffers);
  records_.meter.add_bucket(bucket_, ranks_);
}

}  // namespace orrery::live
