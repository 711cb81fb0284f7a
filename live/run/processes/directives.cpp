// Messages to the ranks: the part of RankProcesses that passes the directives of the coordinator to
// the ranks, and the state of their hardware.
#include "live/run/processes/crew.hpp"

namespace orrery::live {

/// The journal is written before any message that follows from the change is sent; the backend
/// writes the commits.
void RankProcesses::journal_epoch() {
  const membership::Journal now = coordinator_.journal();
  const membership::Journal& written = journal_.state().core;
  if (now.epoch == written.epoch && now.decided == written.decided) return;
  JournalRecord record;
  record.mutable_membership()->set_epoch(now.epoch);
  record.mutable_membership()->set_decided(now.decided);
  journal_.append_record(record);
}

void RankProcesses::send_directives() {
  journal_epoch();
  for (const std::uint32_t rank : coordinator_.peers()) {
    for (const ControllerMessage& message :
         briefing_.drain_messages(rank, coordinator_.directive(rank))) {
      agents_.send_message(rank, message);
    }
  }
}

}  // namespace orrery::live
