#include "live/programs/policies/program_progress.hpp"

#include <algorithm>
#include <utility>

#include "core/ids.hpp"
#include "live/programs/policies/program_rules.hpp"

namespace orrery::live {

RankStep rank_step_of(const Fields& fields) {
  return {.steps = std::stoull(fields.at(1)),
          .end_s = std::stod(fields.at(2)),
          .duration_s = std::stod(fields.at(3)),
          .compute_s = std::stod(fields.at(4)),
          .share = static_cast<std::uint32_t>(std::stoul(fields.at(5))),
          .input_s = std::stod(fields.at(6)),
          .prefetch = prefetch_of(fields, 7)};
}

void ProgramProgress::clear() {
  ranks_.clear();
  durations_.clear();
}

void ProgramProgress::set_begin(std::size_t rank, std::uint64_t steps) {
  ranks_[rank] = Rank{.steps = steps, .reports = 0, .newest = {}};
}

void ProgramProgress::record_step(std::size_t rank, const RankStep& step) {
  Rank& own = ranks_[rank];
  own.steps = step.steps;
  ++own.reports;
  own.newest = step;
  double& longest = durations_[step.steps];
  longest = std::max(longest, step.duration_s);
}

std::uint64_t ProgramProgress::completed_steps(const std::vector<std::size_t>& members) const {
  std::uint64_t least = ~std::uint64_t{0};
  for (const std::size_t rank : members) {
    const auto found = ranks_.find(rank);
    least = std::min(least, found == ranks_.end() ? 0 : found->second.steps);
  }
  return members.empty() ? 0 : least;
}

std::uint64_t ProgramProgress::most_steps(const std::vector<std::size_t>& members) const {
  std::uint64_t most = 0;
  for (const std::size_t rank : members) {
    const auto found = ranks_.find(rank);
    if (found != ranks_.end()) most = std::max(most, found->second.steps);
  }
  return most;
}

double ProgramProgress::drain_duration_s(std::uint64_t from, std::uint64_t until) {
  double sum = 0;
  const auto end = durations_.upper_bound(until);
  for (auto at = durations_.upper_bound(from); at != end && at != durations_.end(); ++at) {
    sum += at->second;
  }
  durations_.erase(durations_.begin(), end);
  return sum;
}

std::optional<RankStep> ProgramProgress::newest_step(std::size_t rank) const {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end() || found->second.reports < 2) return std::nullopt;
  return found->second.newest;
}

void ProgramSamples::begin(double now_s, std::vector<std::pair<std::size_t, bool>> ranks,
                           const Prefetch& prefetch) {
  clear_tables();
  now_s_ = now_s;
  prefetch_ = prefetch;
  known_.clear();
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& [of_program, lives] = ranks[rank];
    const std::optional<RankStep> step = progress_.newest_step(of_program);
    if (lives && step) known_.emplace_back(rank, *step);
  }
}

std::shared_ptr<const SampleRows> ProgramSamples::make_rows(SampleTable table, JobId) {
  auto rows = std::make_shared<SampleRows>();
  if (table != SampleTable::ranks) return rows;
  for (const auto& [rank, step] : known_) {
    rows->ids.push_back(rank);
    rows->steps.push_back(step.steps);
  }
  return rows;
}

std::shared_ptr<const SampleColumn> ProgramSamples::make_column(SampleField field, JobId) {
  auto column = std::make_shared<SampleColumn>();
  if (table_of(field) != SampleTable::ranks) return column;
  column->ages.clear();
  for (const auto& [rank, step] : known_) {
    double value = kMissing;
    if (field == SampleField::micro_batches_done) value = 0;
    if (field == SampleField::micro_batch_time) value = step.compute_s / step.share;
    if (field == SampleField::wait_time) value = std::max(0.0, step.duration_s - step.compute_s);
    const bool is_input = field == SampleField::input_wait && step.prefetch == prefetch_;
    if (is_input) value = step.input_s;
    column->values.push_back(value);
    column->ages.push_back(to_nanos(std::max(0.0, now_s_ - step.end_s)));
  }
  if (column->ages.empty()) column->ages.push_back(0);
  return column;
}

RankSummary ProgramSamples::summary(JobId job, std::uint32_t latest) {
  return summarize(*this, job, latest, slowest_);
}

}  // namespace orrery::live
