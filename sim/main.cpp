// orrery-sim: serves one simulated run to the process that started it.
#include "policies/worker.hpp"
#include "sim/sim_backend.hpp"

int main() {
  return orrery::serve_run("sim", [](const orrery::RunRequest& request,
                                     const orrery::Cluster& cluster,
                                     const orrery::ProgressSink& progress) {
    return std::make_unique<orrery::SimBackend>(request, cluster, progress);
  });
}
