#include "live/codec/gradient_codes.hpp"

namespace orrery::live {

void GradientCodes::set_rule(const CodecRule& rule) {
  const std::lock_guard<std::mutex> lock(mutex_);
  rule_ = rule;
  if (rule_.codec == Codec::none) buckets_.clear();
}

void GradientCodes::begin_backward() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_in_backward_ = true;
  next_.clear();
}

void GradientCodes::end_backward() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_in_backward_ = false;
}

bool GradientCodes::is_in_backward() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_in_backward_;
}

std::shared_ptr<CodedBucket> GradientCodes::claim_bucket(const std::string& group,
                                                         std::size_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_in_backward_ || rule_.codec == Codec::none || count == 0) return nullptr;
  std::shared_ptr<CodedBucket>& bucket = buckets_[{group, next_[group]++}];
  if (bucket == nullptr || bucket->count() != count || !(bucket->rule() == rule_)) {
    bucket = std::make_shared<CodedBucket>(rule_, count);
  }
  return bucket;
}

void GradientCodes::add_sent_bytes(double bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sent_bytes_ += bytes;
}

double GradientCodes::sent_bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sent_bytes_;
}

}  // namespace orrery::live
