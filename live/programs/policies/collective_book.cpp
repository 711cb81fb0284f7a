#include "live/programs/policies/collective_book.hpp"

#include <algorithm>

namespace orrery::live {
namespace {

constexpr std::size_t kMostOpen = 4096, kMostSizes = 64;
constexpr double kNanosecond = 1e-9;

}  // namespace

void CollectiveBook::add_report(const CollectiveReport& report) {
  const std::pair key(report.communicator, report.sequence);
  const auto [found, is_new] = open_.try_emplace(key, Call{0, report.duration_ns});
  Call& call = found->second;
  call.duration_ns = std::min(call.duration_ns, report.duration_ns);
  if (++call.ranks < report.ranks) {
    if (open_.size() > kMostOpen) open_.erase(open_.begin());
    return;
  }
  const Size size(report.kind, report.bytes, report.ranks);
  if (newest_.size() < kMostSizes || newest_.count(size) > 0) {
    newest_[size] = {.job = {},
                     .step = 0,
                     .kind = report.kind,
                     .algorithm = report.algorithm,
                     .bytes = static_cast<double>(report.bytes),
                     .ranks = report.ranks,
                     .exposed = static_cast<double>(call.duration_ns) * kNanosecond};
  }
  open_.erase(found);
}

std::vector<CollectiveSample> CollectiveBook::drain_samples(Step step) {
  std::vector<CollectiveSample> samples;
  for (auto& [size, sample] : newest_) {
    sample.step = step;
    samples.push_back(sample);
  }
  newest_.clear();
  return samples;
}

}  // namespace orrery::live
