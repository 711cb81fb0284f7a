// A recorded execution trace, or a single collective, as a backend: there is nothing to decide, but
// the run is observed, recorded and reported like that of a job. One pass is simulated; the others
// equal it. Made by orrery-sim, one per process; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policies/worker.hpp"
#include "policies/world.hpp"
#include "sim/trace_run.hpp"
#include "traces/chakra_trace.hpp"
#include "traces/run.pb.h"
#include "traces/trace_fold.hpp"

namespace orrery {

/// One collective among ranks 0 to `ranks` - 1, as a trace of one node.
ChakraTrace collective_trace(const Collective& collective, std::uint32_t ranks);

class TraceBackend : public RunBackend {
 public:
  /// Reads the trace. Throws bad_input if it cannot be read or does not fit the cluster.
  TraceBackend(const RunRequest& request, const Cluster& cluster);

  Capabilities capabilities() const override { return {.signals = kJobs | kSteps, .actions = 0}; }
  const Cluster& cluster() const override { return cluster_; }
  void begin(const Needs&) override {}
  std::optional<Observation> next() override;
  void apply(std::span<const Decision>, bool) override {}
  void fill(Report& report) override;

 private:
  void submit();
  void execute();

  const RunRequest request_;
  const Cluster& cluster_;
  const ChakraTrace trace_;
  const FoldedTrace folded_;
  World world_;
  TraceRunResult result_;
  TraceBounds bounds_;
  std::uint64_t engine_events_ = 0, calls_ = 0;
  Nanos now_ = 0;
  std::vector<Event> events_;
};

}  // namespace orrery
