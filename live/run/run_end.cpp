#include "live/run/run_end.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "live/run/files/run_files.hpp"

namespace orrery::live {
namespace {

constexpr const char* kWaits = "the job waits for GPUs, and no policy assigns it any";

/// Cause of the loss of a rank that sent another hash than most ranks.
constexpr const char* kOutvoted =
    "ended with other parameters than the other ranks: its memory or its processor is damaged; "
    "check the machine";

}  // namespace

AgreedHash agreed_hash(const std::map<std::uint32_t, std::string>& hashes) {
  std::map<std::string, std::size_t> votes;
  for (const auto& [rank, hash] : hashes) ++votes[hash];
  AgreedHash agreed;
  for (const auto& [hash, count] : votes) {
    if (2 * count > hashes.size()) agreed.hash = hash;
  }
  for (const auto& [rank, hash] : hashes) {
    if (hash != agreed.hash) agreed.others.push_back(rank);
  }
  return agreed;
}

const std::string& RunEnd::end_without_state(const std::string& what) {
  state_gone_ = fmt::format("{}: it {}", what, kStateGone);
  return state_gone_;
}

void RunEnd::gather_hashes(RankProcesses& crew, Step next, FailureRecords& failures,
                           Journal& journal, const PolicyClock& clock) {
  parameters_sha256_ = journal.state().parameters_sha256;
  if (!parameters_sha256_.empty()) return;
  const RankProcesses::Parting parting = crew.finish_run(next);
  for (const RankDeath& death : parting.deaths) {
    failures.add_loss(death.rank, clock.now(), clock.now(), death.cause);
  }
  record_hashes(parting.hashes, failures, clock.now());
  if (parameters_sha256_.empty()) return;
  failures.mark_resumed(clock.now());  // A rank lost after the last step delayed no work.
  JournalRecord record;
  record.set_parameters_sha256(parameters_sha256_);
  journal.append_record(record);
}

void RunEnd::record_hashes(const std::map<std::uint32_t, std::string>& hashes,
                           FailureRecords& failures, Nanos now) {
  const AgreedHash agreed = agreed_hash(hashes);
  parameters_sha256_ = agreed.hash;
  if (!hashes.empty() && agreed.hash.empty()) {
    no_hash_ = fmt::format("the ranks {} ended with different parameters, and no majority shows "
                           "the right ones: check the machines, and continue from a checkpoint",
                           fmt::join(agreed.others, ", "));
    return;
  }
  for (const std::uint32_t rank : agreed.others) failures.add_loss(rank, now, now, kOutvoted);
}

std::string RunEnd::unfinished(Step next, const FailureRecords& failures,
                               const std::string& no_checkpoint) const {
  if (!is_whole(next)) {
    const std::string why = is_state_gone()     ? state_gone_
                            : is_stopping()     ? stop_reason_
                            : waits_            ? kWaits
                            : !failures.empty() ? failures.cause()
                                                : "no rank is left to continue";
    return fmt::format("ended after step {} of {}: {}", next, steps_, why);
  }
  if (parameters_sha256_.empty()) return no_hash_;
  return no_checkpoint;
}

void RunEnd::fill(Report& report) const {
  if (!parameters_sha256_.empty()) report.set_parameters_sha256(parameters_sha256_);
}

}  // namespace orrery::live
