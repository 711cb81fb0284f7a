#include "cli/shared/description.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_tree.hpp"
#include "topologies/builder.hpp"
#include "topologies/machine.hpp"
#include "traces/clusters/cluster_file.hpp"
#include "traces/files/csv.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/models/model_file.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/replay_conditions.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::cli {
namespace {

constexpr std::uint32_t kSequence = 8192;
/// Bytes of the training state of a parameter: weight and gradient in bf16, weight and both moments
/// of Adam in fp32.
constexpr double kStateBytes = 16;
constexpr double kBytesPerGiB = 1024.0 * 1024.0 * 1024.0;

std::string grouped_count(double value) { return grouped(static_cast<std::uint64_t>(value)); }

/// Adds a figure for people and for scripts.
class Figures {
 public:
  explicit Figures(Description& out) : out_(out) {}

  void add(const char* key, const char* label, const std::string& text,
           const nlohmann::ordered_json& value) {
    out_.json[key] = value;
    if (!text.empty()) out_.lines.emplace_back(label, text);
  }
  void add_count(const char* key, const char* label, double value) {
    add(key, label, grouped_count(value), static_cast<std::uint64_t>(value));
  }

 private:
  Description& out_;
};

nlohmann::ordered_json by_owner(const ParameterCounts& counts) {
  nlohmann::ordered_json out;
  const auto add = [&](const char* owner, double value) {
    out[owner] = static_cast<std::uint64_t>(value);
  };
  add("embedding", counts.embedding);
  add("output", counts.output);
  add("attention", counts.attention);
  add("mlp", counts.mlp);
  add("router", counts.router);
  add("experts", counts.experts);
  add("shared_experts", counts.shared_experts);
  add("norms", counts.norms);
  add("biases", counts.biases);
  return out;
}

std::string owners_text(const nlohmann::ordered_json& owners) {
  std::string text;
  for (const auto& [owner, value] : owners.items()) {
    if (value == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", owner == "shared_experts" ? "shared experts" : owner,
                        grouped(value.get<std::uint64_t>()));
  }
  return text;
}

std::string shape_text(const Model& model) {
  std::string text =
      fmt::format("{} layers, hidden {}, {} heads", model.layers(), model.hidden(), model.heads());
  if (model.has_latent_attention()) {
    text += fmt::format(" with latents of {}", model.latent_attention().key_value_rank());
  } else {
    text += fmt::format(" ({} for keys and values)", model.kv_heads());
  }
  text += fmt::format(", MLP {}", model.feed_forward());
  if (model.has_experts()) {
    text += fmt::format(", {} experts of which a token uses {}", model.experts().count(),
                        model.experts().top_k());
    if (model.experts().shared() > 0)
      text += fmt::format(" and {} shared", model.experts().shared());
  }
  return text + fmt::format(", vocabulary {}", grouped(model.vocabulary()));
}

Description describe_model(const std::string& text, const std::string& path,
                           std::uint32_t sequence_length) {
  const ModelFile file = parse_model_file(text, path);
  const Model& model = file.decoder.model;
  const ParameterCounts counts = count_parameters(file.decoder);
  const Experts& experts = model.experts();
  const double used = model.has_experts() ? double{1} * experts.top_k() / experts.count() : 1;
  const double total = counts.total(), active = total - (1 - used) * counts.experts;
  std::uint32_t sequence = sequence_length;
  if (sequence == 0) sequence = file.batch.sequence_length;
  if (sequence == 0) sequence = kSequence;
  Description out{.kind = "model", .format = std::string(name_of(file.format))};
  Figures figures(out);
  figures.add("family", "family", file.decoder.family, file.decoder.family);
  out.lines.emplace_back("shape", shape_text(model));
  figures.add_count("parameters", "parameters", total);
  figures.add_count("active_parameters", "for each token", active);
  const nlohmann::ordered_json owners = by_owner(counts);
  figures.add("parameters_by_owner", "by owner", owners_text(owners), owners);
  figures.add("training_state_bytes", "training state",
              fmt::format("{:.1f} GiB: 16 bytes a parameter (Adam, bf16 with fp32 weights), "
                          "without activations, over all GPUs",
                          total * kStateBytes / kBytesPerGiB),
              total * kStateBytes);
  const double flop = training_flop_per_token(model, sequence);
  figures.add("training_flop_per_token", "operations",
              fmt::format("{:.4g} FLOP a token, forward and backward, in sequences of {} tokens",
                          flop, sequence),
              flop);
  figures.add("sequence_length", "", "", sequence);
  if (file.batch.global_batch > 0) {
    figures.add_count("global_batch", "batch", file.batch.global_batch);
  }
  out.assumed = file.decoder.assumed;
  return out;
}

std::string rate_text(double bytes_per_s) { return fmt::format("{:g} Gbit/s", bytes_per_s * 8e-9); }

void add_cluster_figures(const Topology& resolved, const Cluster& cluster, Figures& figures) {
  const NodeSpec& node = resolved.node();
  figures.add_count("nodes", "nodes", cluster.nodes());
  figures.add("gpus", "GPUs",
              fmt::format("{} {}, {} a node, {:.0f} GiB each", grouped(cluster.gpus()), node.gpu(),
                          node.gpus_per_node(), cluster.gpu_model().memory.value / kBytesPerGiB),
              cluster.gpus());
  figures.add("gpu", "", "", node.gpu());
  figures.add("gpus_per_node", "", "", node.gpus_per_node());
  figures.add("nics_per_node", "NICs",
              fmt::format("{} a node of {}", node.nics_per_node(), rate_text(node.nic_bandwidth())),
              node.nics_per_node());
  figures.add("nic_bandwidth_bytes_per_s", "", "", node.nic_bandwidth());
  figures.add("nvlink_domain_nodes", "NVLink domain",
              fmt::format("{} GPUs", std::max(1u, node.nvlink_domain()) * node.gpus_per_node()),
              std::max(1u, node.nvlink_domain()));
  const FabricSpec& fabric = resolved.fabric();
  std::string tiers = fabric.kind();
  if (fabric.nodes_per_unit() > 0) {
    tiers += fmt::format(", {} nodes a unit, {} spines for each rail by links of {}",
                         fabric.nodes_per_unit(), fabric.spines(),
                         rate_text(fabric.spine_link_bandwidth()));
  }
  figures.add("fabric", "fabric", tiers, fabric.kind());
}

Description describe_cluster(const std::string& text, const std::string& path) {
  Topology topology;
  const SourceMap places = load_yaml(text, path, topology);
  resolve(topology, places);
  Description out{.kind = "cluster", .format = "cluster of Orrery"};
  Figures figures(out);
  add_cluster_figures(topology, build_cluster(topology, places), figures);
  return out;
}

Description describe_foreign_cluster(const std::string& text, const std::string& path) {
  const ClusterFacts facts = parse_cluster_file(text, path);
  Description out{.kind = "cluster", .format = std::string(name_of(*cluster_format(text)))};
  Figures figures(out);
  for (const std::string& line : facts.read) out.lines.emplace_back("contents", line);
  const auto add = [&](const char* key, const char* label, double value) {
    if (value > 0) figures.add_count(key, label, value);
  };
  if (!facts.gpu.empty()) figures.add("gpu", "GPU", facts.gpu, facts.gpu);
  add("gpus_per_node", "GPUs a node", facts.gpus_per_node);
  add("nics_per_node", "NICs a node", facts.nics_per_node);
  if (facts.nic_bandwidth > 0) {
    figures.add("nic_bandwidth_bytes_per_s", "NIC", rate_text(facts.nic_bandwidth),
                facts.nic_bandwidth);
  }
  if (facts.knows_nvlinks) figures.add_count("nvlinks_per_gpu", "NVLinks a GPU", facts.nvlinks);
  add("nodes", "nodes", facts.nodes);
  add("nodes_per_leaf", "nodes a leaf", facts.nodes_per_leaf);
  add("spines", "spines", facts.spines);
  add("nvlink_domain_nodes", "NVLink domain", facts.nodes_per_domain);
  figures.add("ignored", "", "", facts.ignored);
  out.assumed = facts.assumed;
  return out;
}

Description describe_scenario(const std::string& text, const std::string& path) {
  const LoadedScenario loaded = parse_scenario(text, path, {});
  const Scenario& scenario = loaded.scenario;
  Description out{.kind = "scenario", .format = "scenario of Orrery"};
  Figures figures(out);
  figures.add("name", "name", scenario.name(), scenario.name());
  std::string work = "one collective";
  if (scenario.has_job()) work = "a training job";
  if (scenario.jobs_size() > 0) work = fmt::format("{} training jobs", scenario.jobs_size());
  if (scenario.has_trace()) work = "an execution trace";
  if (scenario.has_recorded()) work = "jobs of a log";
  figures.add("work", "work", work, work);
  add_cluster_figures(scenario.cluster(),
                      build_cluster(scenario.cluster(), loaded.places, "cluster"), figures);
  figures.add_count("policies", "policies", scenario.policies_size());
  figures.add_count("faults", "faults", scenario.faults_size());
  return out;
}

Description describe_replay(const std::string& text, const std::string& path) {
  JobReplay replay;
  load_yaml(text, path, replay);
  Description out{.kind = "replay", .format = "replay of a job log"};
  Figures figures(out);
  figures.add("trace", "job log", replay.trace(), replay.trace());
  figures.add("policy", "policy", replay.policy(), replay.policy());
  return out;
}

Description describe_machine(const std::string& path) {
  const MachineProfile machine = load_machine(path);
  Description out{.kind = "machine", .format = "profile of orrery calibrate"};
  Figures figures(out);
  figures.add("name", "name", machine.name(), machine.name());
  figures.add_count("rank_counts", "numbers of ranks", machine.links_size());
  return out;
}

Description describe_job_log(const std::string& text, const std::string& path) {
  const JobLog log = parse_job_log(path, text);
  Description out{.kind = "job log", .format = log.quality.format()};
  Figures figures(out);
  figures.add_count("rows", "rows", static_cast<double>(log.quality.rows()));
  figures.add_count("jobs", "jobs", static_cast<double>(log.jobs.size()));
  figures.add_count("passed_over", "passed over", static_cast<double>(log.quality.passed_over()));
  figures.add_count("rejected", "rejected", static_cast<double>(log.quality.rejected()));
  return out;
}

/// Returns the names of the keys at the top of a YAML text; empty if the text is no YAML map.
std::vector<std::string> top_keys(const std::string& text, const std::string& path) {
  std::vector<std::string> names;
  try {
    for (const YamlKey& key : parse_yaml_tree(text, path).keys) names.push_back(key.name);
  } catch (const Error&) {  // no YAML
  }
  return names;
}

}  // namespace

Description describe_file(const std::string& path, std::uint32_t sequence_length) {
  const std::string text = read_packed_text(path);
  if (model_format(text)) return describe_model(text, path, sequence_length);
  if (cluster_format(text)) return describe_foreign_cluster(text, path);
  const std::vector<std::string> keys = top_keys(text, path);
  const auto has = [&](std::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  if (has("cluster") && (has("job") || has("jobs") || has("collective") || has("run"))) {
    return describe_scenario(text, path);
  }
  if (has("trace") && describes_replay(path)) return describe_replay(text, path);
  if (has("processor") && has("links")) return describe_machine(path);
  if (has("node") || has("fabric") || has("preset")) return describe_cluster(text, path);
  try {
    return describe_job_log(text, path);
  } catch (const Error& error) {
    throw Error(error.source_place().value_or(place_in(text, path, 1, 1)),
                "expected a model, a cluster, a scenario, a machine or a job log, found none of "
                "them; as a job log: " +
                    error.message());
  }
}

}  // namespace orrery::cli
