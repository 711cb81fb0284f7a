#include "live/codec/gradient_meter.hpp"

#include <cmath>
#include <utility>

namespace orrery::live {
namespace {

/// Passes from one measurement of the squares to the next: reading all values takes time.
constexpr std::uint64_t kSquaresEvery = 8;
constexpr double kBytesOfValue = 4;

}  // namespace

void GradientMeter::start_measuring() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_measuring_ = true;
}

void GradientMeter::begin_pass() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_new_pass_ = true;
  ++passes_;
}

bool GradientMeter::is_measuring() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_measuring_;
}

bool GradientMeter::wants_squares() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_measuring_ && passes_ % kSquaresEvery == 0;
}

void GradientMeter::add_bucket(const MeasuredBucket& bucket, std::size_t ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_new_pass_) {
    exchange_ = {};
    largest_ = 0;
    own_square_ = sum_square_ = 0;
    has_squares_ = true;
    is_new_pass_ = false;
  }
  exchange_.bytes += kBytesOfValue * static_cast<double>(bucket.count);
  if (bucket.count > largest_) {
    largest_ = bucket.count;
    exchange_.begun_s = bucket.begun_s;
    exchange_.done_s = bucket.done_s;
    exchange_.sent_bytes = bucket.sent_bytes;
  }
  if (bucket.issued_s >= exchange_.issued_s) {
    exchange_.issued_s = bucket.issued_s;
    exchange_.ended_s = bucket.ended_s;
  }
  own_square_ += bucket.own_square;
  sum_square_ += bucket.sum_square;
  has_squares_ = has_squares_ && bucket.sum_square > 0;
  const auto count = static_cast<double>(ranks);
  const double variance = count * count * own_square_ / sum_square_ - 1;
  const bool is_known = has_squares_ && std::isfinite(variance);
  exchange_.variance = is_known ? variance : std::numeric_limits<double>::quiet_NaN();
}

GradientExchange GradientMeter::drain_exchange() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(exchange_, {});
}

}  // namespace orrery::live
