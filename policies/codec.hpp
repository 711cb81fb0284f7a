// Structs of the seam to and from their recorded form (traces/trace.proto): one conversion for
// logs, for replay and for policies in another process.
#pragma once

#include <string>
#include <vector>

#include "policies/policy.hpp"
#include "traces/trace.pb.h"

namespace orrery {

void encode(const Observation& seen, ObservationRecord& out);
void encode(const Decision& decision, DecisionRecord& out);
Decision decode(const DecisionRecord& record);

CollectiveTableRecord encode_rules(JobId job, const CollectiveTable& rules);
/// Throws bad_input for a collective or algorithm that there is none of.
CollectiveTable decode_rules(const CollectiveTableRecord& record);

/// An observation rebuilt from records: owns what the spans point to, and a World that follows
/// the recorded events.
class ObservationReader {
 public:
  explicit ObservationReader(const Cluster& cluster) : world_(cluster) {}
  /// Valid until the next call. Throws bad_input on a record that cannot be (unknown event kind,
  /// a rank outside its job).
  Observation read(const ObservationRecord& record);
  World& world() { return world_; }

 private:
  void check_samples() const;

  World world_;
  std::vector<Event> events_;
  std::vector<DeviceSample> devices_;
  std::vector<LinkSample> links_;
  std::vector<RankSample> ranks_;
  std::vector<CollectiveSample> collectives_;
};

/// What was decided, without times, ages or reasons:
/// "ShiftMicrobatches{job 0: 13 13 1 13, step 12}".
std::string trace_line(const Decision& decision);
/// The line of the decision trace. Decisions on whole jobs (PlaceJob, Preempt) carry the trace
/// second as well, because it is their effect; a WakeMe is about time alone and gives no line.
std::string trace_line(const Decision& decision, Nanos now);

}  // namespace orrery
