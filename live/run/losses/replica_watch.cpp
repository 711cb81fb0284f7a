#include "live/run/losses/replica_watch.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "live/training/state_hashes.hpp"

namespace orrery::live {

void ReplicaWatch::record_report(std::uint32_t rank, const StepReport& report,
                                 const std::vector<std::uint32_t>& members) {
  if (report.abandoned() || report.hashes().empty()) return;
  const std::pair<std::uint64_t, std::uint64_t> which{report.step(), report.epoch()};
  if (which != which_) states_.clear();
  which_ = which;
  states_[rank] = from_wire(report.hashes());
  const bool all = std::all_of(members.begin(), members.end(),
                               [this](std::uint32_t member) { return states_.contains(member); });
  if (all) judge_step(report.step());
}

void ReplicaWatch::judge_step(Step step) {
  const ReplicaVerdict verdict = compare_replicas(states_);
  states_.clear();
  for (const std::uint32_t rank : verdict.outvoted) {
    const std::string cause = fmt::format(
        "computed step {} with another training state in memory than the other ranks: its memory "
        "or its processor is damaged; check the machine",
        step);
    warn_(fmt::format("rank {} {}; the rank is killed", rank, cause));
    control_.end(rank, cause);
  }
  if (verdict.undecided.empty()) return;
  give_up_(
      fmt::format("the training state (ranks {} computed step {} with different copies of it, "
                  "and no majority shows the damaged one)",
                  fmt::join(verdict.undecided, ", "), step));
}

}  // namespace orrery::live
