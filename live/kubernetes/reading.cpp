#include "live/kubernetes/reading.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace orrery::live {
namespace {

using Json = nlohmann::json;

// Limits of a Cluster.
constexpr std::int64_t kMostGpus = 128;
constexpr std::int64_t kMostPods = 1'000'000;
constexpr std::int64_t kMostSeconds = std::int64_t{1} << 33;
constexpr std::int64_t kMostReadings = std::int64_t{1} << 53;

[[noreturn]] void refuse(const std::string& key, const std::string& expected) {
  throw Error(
      ErrorKind::bad_input,
      fmt::format("reading of Kubernetes: {}: expected {}, found another value", key, expected));
}

const Json& field_of(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) refuse(key, "a value");
  return object.at(key);
}

std::string text_in(const Json& object, const char* key) {
  const Json& value = field_of(object, key);
  if (!value.is_string()) refuse(key, "a text");
  return value.get<std::string>();
}

bool flag_in(const Json& object, const char* key) {
  const Json& value = field_of(object, key);
  if (!value.is_boolean()) refuse(key, "true or false");
  return value.get<bool>();
}

std::int64_t number_in(const Json& object, const char* key, std::int64_t least, std::int64_t most) {
  const Json& value = field_of(object, key);
  const auto expected = [&] { return fmt::format("a whole number of {} to {}", least, most); };
  if (!value.is_number_integer()) refuse(key, expected());
  const auto number = value.get<std::int64_t>();
  if (number < least || number > most) refuse(key, expected());
  return number;
}

const Json& list_in(const Json& object, const char* key) {
  const Json& value = field_of(object, key);
  if (!value.is_array()) refuse(key, "a list");
  return value;
}

std::vector<std::string> texts_in(const Json& object, const char* key) {
  std::vector<std::string> texts;
  for (const Json& each : list_in(object, key)) {
    if (!each.is_string()) refuse(key, "a list of texts");
    texts.push_back(each.get<std::string>());
  }
  return texts;
}

KubeGang gang_of(const Json& object) {
  const auto small = [&](const char* key, std::int64_t least, std::int64_t most) {
    return static_cast<std::uint32_t>(number_in(object, key, least, most));
  };
  KubeGang gang;
  gang.id = text_in(object, "id");
  gang.uid = text_in(object, "uid");
  gang.name = text_in(object, "name");
  const std::optional<GangState> state = find_named<GangState>(text_in(object, "state"));
  if (!state) refuse("state", "the stage of a gang");
  gang.state = *state;
  gang.is_managed = flag_in(object, "managed");
  gang.submitted_s = number_in(object, "submitted_s", 0, kMostSeconds);
  gang.limit_s = number_in(object, "limit_s", 0, kMostSeconds);
  gang.queue = text_in(object, "queue");
  gang.pods = small("pods", 1, kMostPods);
  gang.pods_per_node = small("pods_per_node", 1, kMostPods);
  gang.gpus_per_pod = small("gpus_per_pod", 1, kMostGpus);
  gang.nodes = texts_in(object, "nodes");
  gang.needs_rack = flag_in(object, "one_rack");
  return gang;
}

KubeNode node_of(const Json& object) {
  KubeNode node;
  node.name = text_in(object, "name");
  if (node.name.empty()) refuse("name", "the name of a node");
  node.gpus = static_cast<std::uint32_t>(number_in(object, "gpus", 1, kMostGpus));
  node.is_usable = flag_in(object, "usable");
  node.rack = text_in(object, "rack");
  node.gpu_type = text_in(object, "gpu_type");
  return node;
}

}  // namespace

KubeReading parse_reading(const std::string& message) {
  const Json object = Json::parse(message, nullptr, false);
  if (object.is_object() && object.contains("failed")) {
    throw Error(ErrorKind::environment, text_in(object, "failed"));
  }
  KubeReading reading;
  reading.is_leader = flag_in(object, "leader");
  reading.holder = text_in(object, "holder");
  reading.version = static_cast<std::uint64_t>(number_in(object, "version", 1, kMostReadings));
  reading.is_full = flag_in(object, "full");
  reading.gone = texts_in(object, "gone");
  reading.has_nodes = !field_of(object, "nodes").is_null();
  if (reading.has_nodes) {
    for (const Json& each : list_in(object, "nodes")) reading.nodes.push_back(node_of(each));
  }
  for (const Json& each : list_in(object, "gangs")) reading.gangs.push_back(gang_of(each));
  reading.problems = texts_in(object, "problems");
  return reading;
}

KubeReading KubeState::apply(KubeReading changes) {
  if (changes.is_full) {
    gangs_.clear();
  } else if (version_ == 0) {
    refuse("full", "all gangs in the first reading");
  }
  version_ = changes.version;
  for (const std::string& id : changes.gone) gangs_.erase(id);
  for (KubeGang& gang : changes.gangs) gangs_.insert_or_assign(gang.id, std::move(gang));
  if (changes.has_nodes) nodes_ = std::move(changes.nodes);
  KubeReading complete = std::move(changes);
  complete.is_full = complete.has_nodes = true;
  complete.nodes = nodes_;
  complete.gone.clear();
  complete.gangs.clear();
  for (const auto& [id, gang] : gangs_) complete.gangs.push_back(gang);
  return complete;
}

std::vector<QueueNode> nodes_by_rack(std::vector<KubeNode> nodes, std::uint32_t places,
                                     std::uint32_t& nodes_per_rack) {
  std::sort(nodes.begin(), nodes.end(), [](const KubeNode& a, const KubeNode& b) {
    return std::make_pair(a.rack.empty(), std::make_pair(a.rack, a.name)) <
           std::make_pair(b.rack.empty(), std::make_pair(b.rack, b.name));
  });
  std::map<std::string, std::uint32_t> sizes;
  for (const KubeNode& node : nodes) ++sizes[node.rack];
  const auto count = static_cast<std::uint32_t>(nodes.size());
  places = std::max(places, count);
  nodes_per_rack = 0;
  const bool has_racks = sizes.size() > 1 || (sizes.size() == 1 && !sizes.contains(""));
  if (!has_racks || (sizes.size() == 1 && places == count)) {
    nodes.resize(places);
    return nodes;
  }
  const auto grown = [&](std::uint64_t number) {
    return static_cast<std::uint32_t>((number * places + count - 1) / count);
  };
  std::uint32_t largest = 0;
  for (const auto& [rack, size] : sizes) largest = std::max(largest, size);
  nodes_per_rack = grown(largest);
  std::vector<QueueNode> all;
  for (auto node = nodes.begin(); node != nodes.end();) {
    const std::uint32_t size = sizes.at(node->rack);
    all.insert(all.end(), node, node + size);
    all.resize(all.size() + nodes_per_rack - size);
    node += size;
  }
  all.resize(std::size_t{grown(sizes.size())} * nodes_per_rack);
  return all;
}

}  // namespace orrery::live
