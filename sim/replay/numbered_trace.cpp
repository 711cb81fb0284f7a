#include "sim/replay/numbered_trace.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace orrery::sim {
namespace {

bool submitted_before(const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; }

}  // namespace

NumberedTrace::NumberedTrace(std::vector<TraceJob> jobs, std::uint32_t gpus, KindSizes kinds)
    : trace_(std::move(jobs)), most_(gpus), kind_sizes_(std::move(kinds)) {
  if (!kind_sizes_.empty()) count_kinds();
  const auto fits = [this](const TraceJob& job) { return misfit(job).empty(); };
  const bool as_they_stand = std::is_sorted(trace_.begin(), trace_.end(), submitted_before) &&
                             std::all_of(trace_.begin(), trace_.end(), fits);
  if (as_they_stand) return;
  for (std::uint32_t i = 0; i < trace_.size(); ++i) {
    if (fits(trace_[i])) order_.push_back(i);
  }
  std::stable_sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
    return submitted_before(trace_[a], trace_[b]);
  });
  number_.assign(trace_.size(), kRejected);
  for (std::uint32_t i = 0; i < order_.size(); ++i) number_[order_[i]] = i;
}

void NumberedTrace::count_kinds() {
  most_ = 0;
  for (const auto& [kind, gpus] : kind_sizes_) most_ = std::max(most_, gpus);
  for (const TraceJob& job : trace_) {
    if (job.kinds.empty() || choices_.contains(job.kinds)) continue;
    Choice choice{.kinds = GpuKinds(job.kinds.str())};
    for (const KindSpeed& each : choice.kinds.by_speed()) {
      const auto known = kind_sizes_.find(each.kind);
      if (known != kind_sizes_.end()) choice.most = std::max(choice.most, known->second);
    }
    choices_.emplace(job.kinds, std::move(choice));
  }
}

std::string NumberedTrace::misfit(const TraceJob& job) const {
  const bool choosy = kinds_of(job) != nullptr;
  const std::uint32_t most = choosy ? choices_.at(job.kinds).most : most_;
  if (job.gpus <= most) return "";
  if (most == 0) {
    std::vector<std::string_view> names;
    for (const auto& [name, gpus] : kind_sizes_) names.push_back(name);
    return fmt::format("may use GPUs of {} only, the nodes have {}",
                       choices_.at(job.kinds).kinds.gpu_kind(), fmt::join(names, ", "));
  }
  const std::string kind = choosy ? " of " + choices_.at(job.kinds).kinds.gpu_kind() : "";
  return fmt::format("needs {} GPUs{}, there are {}", job.gpus,
                     kind.empty() && kind_sizes_.size() > 1 ? " of one kind" : kind, most);
}

}  // namespace orrery::sim
