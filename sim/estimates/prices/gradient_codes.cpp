#include "sim/estimates/prices/gradient_codes.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "traces/workload/model.hpp"
#include "traces/workload/precision.hpp"

namespace orrery::estimates {
namespace {

using Counts = std::array<double, kBucketClasses>;

/// Value counts by rule: classes with equal codes share their blocks.
std::vector<std::pair<CodecRule, double>> by_rule(std::span<const CodecRule> rules,
                                                  const Counts& counts) {
  std::vector<std::pair<CodecRule, double>> out;
  for (std::uint32_t each = 0; each < kBucketClasses; ++each) {
    if (counts[each] < 0.5) continue;
    const CodecRule rule = rule_for(rules, each, each != kVectors);
    const auto known = std::find_if(out.begin(), out.end(),
                                    [&](const auto& other) { return other.first == rule; });
    if (known == out.end()) {
      out.emplace_back(rule, counts[each]);
    } else {
      known->second += counts[each];
    }
  }
  return out;
}

bool in_two_steps(Codec codec) { return codec != Codec::none && codec != Codec::power_sgd; }

}  // namespace

CodecSpeeds known_speeds(const Job& job, double memory_bandwidth) {
  CodecSpeeds speeds;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const auto codec = static_cast<Codec>(i);
    speeds[i] = job.model().builtin().empty()
                    ? gpu_throughput({.codec = codec}, memory_bandwidth)
                    : cpu_throughput(codec);
  }
  return speeds;
}

double gradient_value_bytes(const Job& job) {
  return job.gradient_bytes() > 0 ? job.gradient_bytes() : value_bytes(job);
}

bool summed_in_whole_numbers(const Scenario& scenario) {
  return !scenario.job().model().builtin().empty() && scenario.live().reproducible();
}

GradientCodes::GradientCodes(const Job& job, double plain_bytes, const CodecSpeeds& speeds)
    : value_bytes_(gradient_value_bytes(job)), plain_bytes_(plain_bytes), speeds_(speeds) {
  if (plain_bytes_ == 0) plain_bytes_ = value_bytes_;
  const GradientClasses classes = gradient_classes(job.model());
  const double all = classes.matrices + classes.vectors + classes.embeddings;
  shares_[kMatrices] = classes.matrices / all;
  shares_[kVectors] = classes.vectors / all;
  shares_[kEmbeddings] = classes.embeddings / all;
}

Travel GradientCodes::coded_all_reduce(double bytes, std::uint32_t ranks) const {
  const double values = bytes / value_bytes_;
  if (rules_.empty()) return {.bytes = values * plain_bytes_};
  Counts counts{};
  for (std::uint32_t each = 0; each < kBucketClasses; ++each) {
    counts[each] = values * shares_[each];
  }
  Travel travel;
  for (const auto& [code, value_count] : by_rule(rules_, counts)) {
    const auto count = static_cast<std::uint64_t>(std::llround(value_count));
    travel.bytes += static_cast<double>(codec_bytes(code, count));
    travel.coding.value +=
        exchange_codec_seconds(count, ranks, speeds_[static_cast<std::size_t>(code.codec)]);
    travel.in_two_steps = travel.in_two_steps || in_two_steps(code.codec);
  }
  return travel;
}

}  // namespace orrery::estimates
