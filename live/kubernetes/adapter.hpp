// Process that talks to the API server of a Kubernetes cluster (python/orrery/kube/adapter.py).
// Used by live/kubernetes/kubernetes_cluster and its command. One thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "live/kubernetes/reading.hpp"

namespace orrery::live {

/// Access to one Kubernetes cluster. All methods block, and throw an environment Error if the
/// cluster does not answer in time.
class KubeAdapter {
 public:
  virtual ~KubeAdapter() = default;
  /// Returns the state of the cluster. `acts`: placements that were committed before may be
  /// completed. Throws bad_input for a message of another form.
  virtual KubeReading read_cluster(bool acts) = 0;
  /// Places a waiting gang: `nodes` has the name of the node of each pod. Returns the reason why
  /// the gang was not placed, not even in part; empty if the placement is committed.
  virtual std::string place_gang(const std::string& id, const std::vector<std::string>& nodes) = 0;
  /// Stops a placed gang, so that its owner queues the gang again. Returns the reason why not;
  /// empty if the gang stops.
  virtual std::string evict_gang(const std::string& id) = 0;
};

/// Program of the adapter.
struct AdapterProgram {
  std::string path;                    ///< executable
  std::vector<std::string> arguments;  ///< arguments without the executable
  std::chrono::milliseconds patience = std::chrono::seconds(60);  ///< deadline of each answer
};

/// Starts the process and returns access to the cluster. A process that ends or gives no answer in
/// time is killed and started again at the next call. Throws an environment Error with the reason
/// of the process if the process cannot serve.
std::unique_ptr<KubeAdapter> start_adapter(AdapterProgram program);

}  // namespace orrery::live
