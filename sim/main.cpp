// orrery-sim: serves one simulated run to the process that started it; as a fork server, one in
// every fork.
#include <string_view>

#include "core/process.hpp"
#include "policies/run/worker.hpp"
#include "sim/sim_backend.hpp"
#include "sim/trace_backend.hpp"

int main(int argc, char** argv) {
  using namespace orrery;
  const bool forked = argc > 1 && std::string_view(argv[1]) == kForkServerArgument;
  if (forked) serve_forks();
  return serve_run("sim", [](const RunRequest& request, const Cluster& cluster,
                             const ProgressSink& progress) -> std::unique_ptr<RunBackend> {
    if (request.scenario().has_job()) {
      return std::make_unique<SimBackend>(request, cluster, progress);
    }
    return std::make_unique<TraceBackend>(request, cluster);
  }, forked);
}
