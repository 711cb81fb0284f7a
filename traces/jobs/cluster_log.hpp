// The nodes of a cluster as its own tools write them down: Slurm's slurm.conf, and what `kubectl
// get nodes -o json` lists. Called by `orrery jobs --cluster`. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/jobs/pod_list.hpp"

namespace orrery {

/// Told apart by how the file begins. Nodes in the order of the file, those without GPUs too; the
/// model is Slurm's Gres type, or the label nvidia.com/gpu.product. Of slurm.conf the lines
/// NodeName= count (names may be lists such as gpu[001-016,020]); nothing is included. Throws
/// bad_input with file:line:column.
std::vector<NodeRecord> load_cluster_log(const std::string& path);
/// The same of a text that has been read; `path` is for messages.
std::vector<NodeRecord> parse_cluster_log(const std::string& path, std::string_view text);

/// "gpu[001-003,7],login" is gpu001, gpu002, gpu003, gpu7, login. Nothing for what is no such list,
/// or one of over 131,072 names.
std::vector<std::string> expand_host_list(std::string_view list);

}  // namespace orrery
