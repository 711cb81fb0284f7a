#include "live/run/run_parts.hpp"

#include <algorithm>
#include <utility>

#include "live/machine/cuda_module.hpp"
#include "live/run/requirements.hpp"
#include "live/training/model.hpp"
#include "traces/scenario/live_fabric.hpp"
#include "traces/scenario/scenario.hpp"
#include "traces/workload/model.hpp"

namespace orrery::live {
namespace {

const RunRequest& checked(const RunRequest& request) {
  check_request(request);
  return request;
}

/// Returns the memory traffic of a rank of nominal speed while it computes, in bytes per second.
double nominal_traffic(const Job& job) {
  return job.micro_batch() * memory_traffic(job.model().builtin(), job.sequence_length()) /
         to_seconds(std::max<Nanos>(job.pace().micro_batch(), 1));
}

/// Returns the number of GPUs that can have a rank: those of the cluster, but with NCCL at most
/// those of this machine, and with a rendezvous those whose processes an engine has started.
std::uint32_t slots_of(const RunRequest& request, const Cluster& cluster) {
  const std::uint32_t ranks = request.scenario().job().layout().data();
  if (request.has_rendezvous()) return ranks;
  const std::uint32_t all = std::max(cluster.gpus(), ranks);
  return live_fabric(request) == LiveFabric::nccl ? std::clamp(probe_cuda().devices, ranks, all)
                                                  : all;
}

}  // namespace

RunParts::RunParts(const RunRequest& asked, const Cluster& cluster, const ControllerStart& place,
                   ProgressSink progress, OperatorDesk::Run orders)
    : request(checked(asked)),  // Checked before any member relies on the request.
      text(Text::load(scenario().live().text())),
      journal(place.folder() + "/journal", scenario_hash(scenario()),
              static_cast<std::size_t>(scenario().live().journal_tail()), {},
              run_rules(scenario(), &cluster)),
      replay(cluster, journal.past()),
      placement(world(), slots_of(request, cluster)),
      clock(journal.state().started),
      metrics(scenario(), journal.state(), std::move(progress)),
      checkpoints(request, text, journal.past(), {.cluster = &cluster, .folder = place.memory()}),
      failures(journal.state().losses),
      observations(world(), placement, clock,
                   Telemetry(placement.seats(), nominal_traffic(scenario().job()),
                             declared_noise(scenario().job())),
                   journal),
      desk(place.folder(), scenario().live().metrics(), std::move(orders)) {}

}  // namespace orrery::live
