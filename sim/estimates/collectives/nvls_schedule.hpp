// Reductions inside switches (NVLink SHARP and SHARP). One of the algorithms of
// sim/estimates/collectives/collective_scheduler; one thread.
#pragma once

#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/phase_builder.hpp"

namespace orrery::estimates {

/// Schedule of collectives that switches reduce: NVLink switches inside a domain; between domains
/// the fabric's switches if they can reduce, else double binary trees. All levels form one
/// pipeline.
///
/// For example, in an all-reduce among the 8 GPUs of one domain each GPU sends (8 + 1) / 8 of the
/// buffer and receives as much, in 2 rounds.
class NvlsSchedule {
 public:
  /// Adds phases to `phases`. Both arguments must outlive this object.
  NvlsSchedule(const CollectiveGroups& who, PhaseBuilder& phases) : who_(who), phases_(phases) {}

  /// Adds the phase of the collective and returns true. Returns false, and adds nothing, if the GPU
  /// model has no reducing switches, if domains hold one member or different numbers, for
  /// broadcast, all-to-all and send-receive, and between domains for all kinds except all-reduce.
  bool lay_out(CollectiveKind kind);

 private:
  /// Adds the flows of one rail to the fabric's switches and back. Returns the one-way path cost to
  /// the switch in the middle.
  MessageWay add_switch_tree(const GpuGroup& rail);

  const CollectiveGroups& who_;
  PhaseBuilder& phases_;
};

}  // namespace orrery::estimates
