// orrery-sim: serves one simulated run to the process that started it.
#include "policies/run/worker.hpp"
#include "sim/sim_backend.hpp"
#include "sim/trace_backend.hpp"

int main() {
  using namespace orrery;
  return serve_run("sim", [](const RunRequest& request, const Cluster& cluster,
                             const ProgressSink& progress) -> std::unique_ptr<RunBackend> {
    if (request.scenario().has_job()) {
      return std::make_unique<SimBackend>(request, cluster, progress);
    }
    return std::make_unique<TraceBackend>(request, cluster);
  });
}
