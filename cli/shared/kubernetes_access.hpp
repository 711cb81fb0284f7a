// Access of commands to a Kubernetes cluster: their options, and the process of the package that
// talks to the API server. One thread.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "live/kubernetes/adapter.hpp"

namespace orrery::cli {

/// Options that all commands about a Kubernetes cluster have.
struct KubernetesAccess {
  std::vector<std::string> namespaces;   ///< those whose gangs are managed
  std::vector<std::string> rack_labels;  ///< labels that may name a rack; empty: the usual ones
  std::string kubeconfig, context;       ///< empty: those of kubectl

  /// Adds --kubeconfig, --context and --rack-label.
  void add_access(CLI::App& command);
  /// Returns the process that reads the cluster, and never writes unless a caller adds arguments.
  live::AdapterProgram adapter_program() const;
};

}  // namespace orrery::cli
