#include "sim/replay/numbered_trace.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace orrery::sim {
namespace {

bool submitted_before(const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; }

}  // namespace

NumberedTrace::NumberedTrace(std::vector<TraceJob> jobs, std::uint32_t gpus)
    : trace_(std::move(jobs)), gpus_(gpus) {
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

std::string NumberedTrace::misfit(const TraceJob& job) const {
  return job.gpus <= gpus_ ? "" : fmt::format("needs {} GPUs, there are {}", job.gpus, gpus_);
}

}  // namespace orrery::sim
