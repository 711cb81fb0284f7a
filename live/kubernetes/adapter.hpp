// Process that talks to the API server of a Kubernetes cluster (python/orrery/kube/adapter.py).
// Used by live/kubernetes/kubernetes_cluster and its command. One thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "live/kubernetes/reading.hpp"

namespace orrery::live {

/// Order to place one gang, or to stop it (`nodes` empty).
struct GangOrder {
  std::string gang;
  std::vector<std::string> nodes = {};  ///< node of each pod
};

/// Access to one Kubernetes cluster. All methods block, and throw an environment Error if the
/// cluster does not answer in time.
class KubeAdapter {
 public:
  virtual ~KubeAdapter() = default;
  /// Returns the state of the cluster. `acts`: placements that were committed before may be
  /// completed. Throws bad_input for a message of another form.
  virtual KubeReading read_cluster(bool acts) = 0;
  /// Places waiting gangs in their order; each order has nodes. Returns for each gang the reason
  /// why it was not placed, not even in part; empty if its placement is committed.
  virtual std::vector<std::string> place_gangs(const std::vector<GangOrder>& orders) = 0;
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
