#include "live/wire_count.hpp"

#include <algorithm>
#include <string>

#include "live/codec/power_sgd.hpp"
#include "policies/compression/bucket_class.hpp"

namespace orrery::live {
namespace {

CodecUse& use_of(std::vector<CodecUse>& uses, Codec codec, std::uint32_t bucket_class) {
  const std::string_view name = codec_name(codec), of = kBucketClassNames.at(bucket_class);
  for (CodecUse& use : uses) {
    if (use.codec() == name && use.bucket_class() == of) return use;
  }
  CodecUse& fresh = uses.emplace_back();
  fresh.set_codec(std::string(name));
  fresh.set_bucket_class(std::string(of));
  return fresh;
}

double code_bytes(const GradientBucket& bucket) {
  if (bucket.rule.codec != Codec::power_sgd) {
    return static_cast<double>(codec_bytes(bucket.rule, bucket.count));
  }
  const FactorShape shape(bucket.rule, bucket.columns, bucket.rows);
  return static_cast<double>((shape.left_size() + shape.right_size()) * sizeof(float));
}

}  // namespace

void WireCount::sent(std::uint32_t rank, std::uint32_t life, std::uint64_t bytes) {
  std::uint64_t& most = sent_[{rank, life}];
  most = std::max(most, bytes);
}

void WireCount::exchanged(std::span<const CodecRule> rules, std::uint32_t ranks) {
  for (const GradientTensor& tensor : tensors_) {
    const GradientBucket bucket = cut_buckets({&tensor, 1}, rules, 0).front();
    CodecUse& use = use_of(uses_, bucket.rule.codec, tensor.bucket_class);
    use.set_gradient_bytes(use.gradient_bytes() +
                           ranks * static_cast<double>(tensor.size() * sizeof(float)));
    use.set_code_bytes(use.code_bytes() + ranks * code_bytes(bucket));
  }
}

void WireCount::fill(Report& report) const {
  double bytes = 0;
  for (const auto& [seat, count] : sent_) bytes += static_cast<double>(count);
  report.set_bytes_on_wire(bytes);
  for (const CodecUse& use : uses_) *report.add_codecs() = use;
}

}  // namespace orrery::live
