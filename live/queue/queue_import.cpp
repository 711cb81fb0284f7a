#include "live/queue/queue_import.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "topologies/builder.hpp"
#include "traces/workload/framework.hpp"

namespace orrery::live {
namespace {

std::set<std::string> words_of(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char each) { return each == '_' || each == '-'; }, ' ');
  std::istringstream words(lower_case(text));
  return {std::istream_iterator<std::string>(words), {}};
}

/// Returns the GPU of the catalogue that a type such as "nvidia_a100-sxm4-80gb" names, the most
/// exact one: all words of its name are in the type. Empty: none.
std::string gpu_of(const std::string& type) {
  const std::set<std::string> words = words_of(type);
  std::string found;
  std::size_t most = 0;
  for (const std::string& name : gpu_names()) {
    const std::set<std::string> own = words_of(name);
    if (own.size() <= most || !std::includes(words.begin(), words.end(), own.begin(), own.end())) {
      continue;
    }
    found = name;
    most = own.size();
  }
  return found;
}

}  // namespace

ClusterFacts node_facts(std::string_view scheduler, const std::vector<QueueNode>& all,
                        const NodeMap& nodes) {
  ClusterFacts facts;
  facts.nodes = nodes.nodes();
  facts.gpus_per_node = nodes.gpus_per_node();
  std::set<std::string> types, gpus;
  std::size_t smaller = 0, lost = 0;
  for (const QueueNode& node : all) {
    if (!nodes.find(node.name)) continue;
    smaller += node.gpus < nodes.gpus_per_node();
    lost += !node.is_usable;
    if (node.gpu_type.empty()) continue;
    types.insert(node.gpu_type);
    const std::string gpu = gpu_of(node.gpu_type);
    if (!gpu.empty()) gpus.insert(gpu);
  }
  if (gpus.size() == 1) facts.gpu = *gpus.begin();
  const std::string named = types.empty() ? "" : fmt::format(" ({})", fmt::join(types, ", "));
  facts.read.push_back(fmt::format("{}: {} nodes, at most {} GPUs each{}", scheduler, facts.nodes,
                                   facts.gpus_per_node, named));
  if (gpus.size() > 1) {
    facts.assumed.push_back(
        fmt::format("one kind of GPU, where nodes have {}", fmt::join(gpus, " and ")));
  }
  add_count(facts.assumed, smaller, "nodes with fewer GPUs as whole ones");
  add_count(facts.assumed, lost, "nodes that are down, drained or silent as working ones");
  return facts;
}

void add_count(std::vector<std::string>& notes, std::size_t count, const char* text) {
  if (count > 0) notes.push_back(fmt::format("{} {}", count, text));
}

}  // namespace orrery::live
