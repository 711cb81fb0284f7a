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
          .prefetch = prefetch_of(fields, 7),
          .memory = std::stod(fields.at(9)),
          .gradients = {.bytes = std::stod(fields.at(10)),
                        .issued_s = std::stod(fields.at(11)),
                        .ended_s = std::stod(fields.at(12)),
                        .begun_s = std::stod(fields.at(13)),
                        .done_s = std::stod(fields.at(14)),
                        .sent_bytes = std::stod(fields.at(15)),
                        .variance = std::stod(fields.at(16))}};
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
  std::size_t living = 0;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& [of_program, lives] = ranks[rank];
    if (!lives) continue;
    ++living;
    const std::optional<RankStep> step = progress_.newest_step(of_program);
    if (step) known_.push_back({rank, static_cast<std::uint32_t>(of_program), *step});
  }
  bandwidth_ = kMissing;
  collectives_.clear();
  if (living > 1 && known_.size() == living) begin_exchange();
}

/// Puts the exchange of the gradients together from those of all living ranks.
void ProgramSamples::begin_exchange() {
  const RankStep& first = known_.front().step;
  GradientExchange last = first.gradients;
  for (const KnownRank& each : known_) {
    const GradientExchange& own = each.step.gradients;
    if (each.step.steps != first.steps || own.bytes != last.bytes) return;
    last.issued_s = std::max(last.issued_s, own.issued_s);
    last.ended_s = std::max(last.ended_s, own.ended_s);
    last.begun_s = std::max(last.begun_s, own.begun_s);
    last.done_s = std::max(last.done_s, own.done_s);
    last.sent_bytes = std::min(last.sent_bytes, own.sent_bytes);
  }
  if (last.bytes <= 0 || first.steps == 0) return;
  if (last.sent_bytes > 0 && last.done_s > last.begun_s) {
    bandwidth_ = last.sent_bytes / (last.done_s - last.begun_s);
  }
  collectives_.push_back({.job = {},
                          .step = first.steps - 1,
                          .kind = CollectiveKind::all_reduce,
                          .algorithm = CollectiveAlgorithm::automatic,
                          .bytes = last.bytes,
                          .ranks = static_cast<std::uint32_t>(known_.size()),
                          .exposed = last.ended_s - last.issued_s});
}

std::shared_ptr<const SampleRows> ProgramSamples::make_rows(SampleTable table, JobId) {
  auto rows = std::make_shared<SampleRows>();
  for (std::size_t at = 0; at < known_.size(); ++at) {
    const KnownRank& each = known_[at];
    if (table == SampleTable::ranks) {
      rows->ids.push_back(each.rank);
      rows->steps.push_back(each.step.steps);
    } else if (table == SampleTable::devices) {
      rows->ids.push_back(each.place);
    } else if (known_.size() > 1) {
      rows->ids.push_back(each.place);
      rows->to.push_back(known_[(at + 1) % known_.size()].place);
    }
  }
  return rows;
}

double ProgramSamples::value_of_rank(SampleField field, const RankStep& step) const {
  switch (field) {
    case SampleField::micro_batches_done: return 0;
    case SampleField::micro_batch_time: return step.compute_s / step.share;
    case SampleField::wait_time: return std::max(0.0, step.duration_s - step.compute_s);
    case SampleField::gradient_variance: return step.gradients.variance;
    case SampleField::input_wait: return step.prefetch == prefetch_ ? step.input_s : kMissing;
    case SampleField::memory_used: return step.memory > 0 ? step.memory : kMissing;
    case SampleField::bandwidth: return bandwidth_;
    default: return kMissing;
  }
}

std::shared_ptr<const SampleColumn> ProgramSamples::make_column(SampleField field, JobId) {
  auto column = std::make_shared<SampleColumn>();
  if (table_of(field) == SampleTable::links && known_.size() < 2) return column;
  column->ages.clear();
  for (const KnownRank& each : known_) {
    column->values.push_back(value_of_rank(field, each.step));
    column->ages.push_back(to_nanos(std::max(0.0, now_s_ - each.step.end_s)));
  }
  if (column->ages.empty()) column->ages.push_back(0);
  return column;
}

RankSummary ProgramSamples::summary(JobId job, std::uint32_t latest) {
  return summarize(*this, job, latest, slowest_);
}

}  // namespace orrery::live
