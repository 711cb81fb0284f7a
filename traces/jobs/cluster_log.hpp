// Nodes of a cluster in the formats of the cluster's own tools: Slurm's slurm.conf, the output of
// `kubectl get nodes -o json`, and openb's list of nodes (pod_list.hpp). Called by `orrery jobs
// --cluster`. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/jobs/pod_list.hpp"

namespace orrery {

/// Returns the nodes of a file in the order of the file (openb's list: by name), including nodes
/// without GPUs. The first characters tell the format. The GPU model is Slurm's Gres type, or the
/// label nvidia.com/gpu.product. In slurm.conf only the lines NodeName= are read (names may be
/// lists such as gpu[001-016,020]); includes are not followed. Nodes of Kubernetes have a
/// memory_mib of 0. Throws bad_input with file:line:column for an invalid line, and for a file that
/// is unreadable or has no node with GPUs.
std::vector<NodeRecord> load_cluster_log(const std::string& path);
/// Returns the nodes of a text; `path` is for messages. Throws as load_cluster_log() does.
std::vector<NodeRecord> parse_cluster_log(const std::string& path, std::string_view text);

/// Returns the names of a list of hosts. For example, "gpu[001-003,7],login" gives gpu001, gpu002,
/// gpu003, gpu7, login. Returns an empty list if the text is not a list of hosts or has more than
/// 131,072 names.
std::vector<std::string> expand_host_list(std::string_view list);

}  // namespace orrery
