#include "live/run/run_end.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/run/files/run_files.hpp"

namespace orrery::live {

const std::string& RunEnd::state_gone(const std::string& what) {
  state_gone_ = fmt::format("{}: it {}", what, kStateGone);
  return state_gone_;
}

void RunEnd::gather(Crew& crew, Step next, FailureRecords& failures, Journal& journal,
                    const PolicyClock& clock) {
  parameters_sha256_ = journal.past().parameters_sha256;
  if (!parameters_sha256_.empty()) return;
  const Crew::Parting parting = crew.finish(next);
  for (const RankDeath& death : parting.deaths) {
    failures.lost(death.rank, clock.now(), clock.now(), death.cause);
  }
  for (const auto& [rank, hash] : parting.hashes) {
    ensure(hash == parting.hashes.begin()->second,
           "all ranks end with the same parameters, bit for bit");
    parameters_sha256_ = hash;
  }
  if (parameters_sha256_.empty()) return;
  failures.resumed(clock.now());  // whoever was lost after the last step held nobody up
  JournalRecord record;
  record.set_parameters_sha256(parameters_sha256_);
  journal.append(record);
}

std::string RunEnd::unfinished(Step next, const FailureRecords& failures,
                               const std::string& no_checkpoint) const {
  if (!whole(next)) {
    const std::string why = state_gone()        ? state_gone_
                            : stopping()        ? stop_reason_
                            : !failures.empty() ? failures.cause()
                                                : "nobody is left who could go on";
    return fmt::format("ended after step {} of {}: {}", next, steps_, why);
  }
  if (parameters_sha256_.empty()) return "no rank has handed in its parameters";
  return no_checkpoint;
}

void RunEnd::fill(Report& report) const {
  if (!parameters_sha256_.empty()) report.set_parameters_sha256(parameters_sha256_);
}

}  // namespace orrery::live
