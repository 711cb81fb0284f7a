#include "live/run/run_end.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/run/files/run_files.hpp"

namespace orrery::live {
namespace {

constexpr const char* kWaits = "the job waits for GPUs, and no policy assigns it any";

}  // namespace

const std::string& RunEnd::end_without_state(const std::string& what) {
  state_gone_ = fmt::format("{}: it {}", what, kStateGone);
  return state_gone_;
}

void RunEnd::gather_hashes(RankProcesses& crew, Step next, FailureRecords& failures,
                           Journal& journal, const PolicyClock& clock) {
  parameters_sha256_ = journal.past().parameters_sha256;
  if (!parameters_sha256_.empty()) return;
  const RankProcesses::Parting parting = crew.finish_run(next);
  for (const RankDeath& death : parting.deaths) {
    failures.add_loss(death.rank, clock.now(), clock.now(), death.cause);
  }
  for (const auto& [rank, hash] : parting.hashes) {
    ensure(hash == parting.hashes.begin()->second,
           "expected the same parameters on all ranks, bit for bit");
    parameters_sha256_ = hash;
  }
  if (parameters_sha256_.empty()) return;
  failures.mark_resumed(clock.now());  // A rank lost after the last step delayed no work.
  JournalRecord record;
  record.set_parameters_sha256(parameters_sha256_);
  journal.append_record(record);
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
  if (parameters_sha256_.empty()) return "no rank has sent its parameters";
  return no_checkpoint;
}

void RunEnd::fill(Report& report) const {
  if (!parameters_sha256_.empty()) report.set_parameters_sha256(parameters_sha256_);
}

}  // namespace orrery::live
