// A recorded execution trace, or a single collective, as a backend: there is nothing to decide, but
// the run is observed, recorded and reported like that of a job. One pass is simulated; the others
// equal it. Made by orrery-sim, one per process; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policies/run/worker.hpp"
#include "policies/seam/gate.hpp"
#include "sim/trace_run.hpp"
#include "traces/chakra_trace.hpp"
#include "traces/run.pb.h"
#include "traces/trace_fold.hpp"

namespace orrery {

/// One collective among ranks 0 to `ranks` - 1, as a trace of one node.
ChakraTrace collective_trace(const Collective& collective, std::uint32_t ranks);

class TraceBackend : public RunBackend, private Carrier {
 public:
  /// Reads the trace. Throws bad_input if it cannot be read or does not fit the cluster.
  TraceBackend(const RunRequest& request, const Cluster& cluster);

  Capabilities capabilities() const override { return {}; }
  const Cluster& cluster() const override { return cluster_; }
  void begin(const Needs&) override {}
  std::optional<Observation> next() override;
  void apply(const DecisionList& decisions) override {
    world_.begin_batch();
    gate_.take(decisions, now_);
  }
  void fill(Report& report) override;

 private:
  std::string refusal(const Decision&) const override { return {}; }
  bool step_open(JobId) const override { return false; }
  void happen(Event event) override;
  void carry_out(const Decision&) override {}
  void submit();
  void execute();

  const RunRequest request_;
  const Cluster& cluster_;
  const ChakraTrace trace_;
  const FoldedTrace folded_;
  World world_;
  DecisionGate gate_{world_, {}, *this};
  NoSamples samples_;
  TraceRunResult result_;
  TraceBounds bounds_;
  std::uint64_t engine_events_ = 0, calls_ = 0;
  bool executed_ = false;
  Nanos now_ = 0;
  std::vector<Event> events_, shown_;
};

}  // namespace orrery
