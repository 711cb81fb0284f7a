#include "traces/scenario/layout_question.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_writer.hpp"
#include "topologies/builder.hpp"
#include "traces/models/model_file.hpp"
#include "traces/workload/framework.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/own_stack.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kSequence = 8192;
/// tokens of a step, as usual for models of these sizes
constexpr double kTokens = 4.0 * 1024 * 1024;
constexpr double kBucket = 512.0 * 1024 * 1024;

/// Returns true if an override sets a value that apply_habits() would replace.
bool sets_a_habit(const std::string& setting) {
  for (const char* key : {"job.overlap", "job.bucket", "job.layout.balance"}) {
    if (setting.starts_with(key)) return true;
  }
  return false;
}

class Asked {
 public:
  explicit Asked(const LayoutQuestion& question) : in_(question) {}

  nlohmann::ordered_json scenario();
  std::vector<std::string> assumed;

 private:
  void check() const;
  void read_files();
  std::uint32_t nodes() const;
  nlohmann::ordered_json job();
  void assume_habits(const FrameworkHabits& habits, const Model& model);
  void batch(nlohmann::ordered_json& job);
  std::string or_assumed(const std::string& said, const char* usual, const char* name) {
    if (said.empty()) assumed.push_back(fmt::format("{} {}", name, usual));
    return said.empty() ? usual : said;
  }

  const LayoutQuestion& in_;
  Model model_;       ///< model of the preset or of the file
  NamedBatch batch_;  ///< batch of the file
  Topology cluster_;  ///< cluster of the preset or of the file, not resolved
};

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns true if a name is that of a file and of no shipped entry.
bool names_file(const std::string& name, const std::vector<std::string>& shipped) {
  std::error_code problem;
  return !is_in(shipped, name) && std::filesystem::is_regular_file(name, problem);
}

/// Presets by their names, and files.
void Asked::read_files() {
  if (names_file(in_.model, model_names())) {
    const ModelFile file = read_model_file(in_.model);
    model_ = file.decoder.model;
    batch_ = file.batch;
    assumed = file.decoder.assumed;
  } else {
    model_.set_preset(in_.model);
  }
  cluster_ = asked_cluster(in_.cluster);
}

void Asked::check() const {
  std::vector<std::string> missing;
  if (in_.model.empty()) {
    missing.push_back(fmt::format("a model ({})", fmt::join(model_names(), ", ")));
  }
  if (in_.cluster.empty()) {
    missing.push_back(fmt::format("a cluster ({})", fmt::join(preset_names(), ", ")));
  }
  if (in_.gpus == 0) missing.emplace_back("a number of GPUs");
  if (missing.empty()) return;
  throw Error(ErrorKind::bad_input, fmt::format("layouts: without a scenario there has to be {}",
                                                fmt::join(missing, ", and ")));
}

/// Returns the number of nodes of the cluster's preset that hold the GPUs.
std::uint32_t Asked::nodes() const {
  Topology one = cluster_;
  one.set_nodes(1);
  resolve(one, {}, "");
  const std::uint32_t each = one.node().gpus_per_node();
  if (in_.gpus % each != 0) {
    const std::uint32_t below = in_.gpus / each * each;
    throw Error(
        ErrorKind::bad_input,
        fmt::format("layouts: {} GPUs are no whole nodes of {}, of {} GPUs each; nearest: {}{}",
                    in_.gpus, in_.cluster, each, below > 0 ? fmt::format("{} or ", below) : "",
                    below + each));
  }
  return in_.gpus / each;
}

void Asked::batch(nlohmann::ordered_json& job) {
  std::uint32_t length = in_.sequence_length > 0 ? in_.sequence_length : batch_.sequence_length;
  if (length == 0) {
    length = kSequence;
    assumed.push_back(fmt::format("sequences of {} tokens", kSequence));
  }
  job["sequence_length"] = length;
  if (in_.global_batch > 0 && in_.tokens_per_batch > 0) {
    throw Error(ErrorKind::bad_input,
                "layouts: the batch is given twice, in sequences and in tokens: leave one out");
  }
  const std::uint32_t named = in_.tokens_per_batch > 0 ? 0 : batch_.global_batch;
  if (in_.global_batch > 0 || named > 0) {
    job["global_batch"] = in_.global_batch > 0 ? in_.global_batch : named;
    return;
  }
  const double tokens = in_.tokens_per_batch > 0 ? in_.tokens_per_batch : kTokens;
  const double sequences = std::max(1.0, std::round(tokens / length));
  if (in_.tokens_per_batch <= 0 || sequences * length != tokens) {
    assumed.push_back(fmt::format("a batch of {:.0f} sequences", sequences));
  }
  job["global_batch"] = static_cast<std::uint64_t>(std::min(sequences, 4e9));
}

/// The words are those of `orrery predict`.
void Asked::assume_habits(const FrameworkHabits& habits, const Model& model) {
  if (model.has_experts()) assumed.emplace_back("routing balanced, nothing dropped");
  assumed.push_back(fmt::format("sequence parallelism {}", habits.splits_tokens ? "on" : "off"));
  const std::optional<bool> exchanges =
      model.has_experts() ? std::nullopt : std::optional<bool>(false);
  assumed.push_back(fmt::format("communication {}", overlap_words(habits, exchanges)));
  assumed.emplace_back("flash attention");
}

nlohmann::ordered_json Asked::job() {
  nlohmann::ordered_json job;
  job["model"] = to_yaml_json(model_);
  Model model = model_;
  resolve(model, {}, "model");
  batch(job);
  std::string stack = or_assumed(in_.stack, "nemo", "stack");
  if (names_own_stack(stack)) {
    const SoftwareStack own = load_own_stack(stack);
    stack = own.kin();
    job["software"] = to_yaml_json(own);
  }
  job["stack"] = stack;
  job["precision"] = or_assumed(in_.precision, "bf16", "precision");
  job["layout"] = {{"data", 1}, {"order", "pipeline-last"}};
  // Buckets of an unsharded model are the most that any layout has.
  const double bucket = std::max(kBucket, 8.2 * parameter_count(model) / kMostBuckets);
  job["bucket"] = fmt::format("{:.0f} B", bucket);
  const FrameworkHabits* const habits = habits_of_stack(stack);
  if (habits == nullptr) return job;
  const bool overlaps =
      habits->overlap && (habits->overlap_with_exchange || !model.has_experts());
  job["overlap"] = overlaps;
  job["layout"]["sequence_parallel"] = habits->splits_tokens;
  job["overlaps"] = {{"parameters", overlaps && habits->parameters},
                     {"pipeline", habits->pipeline},
                     {"tensor", habits->splits_tokens ? habits->tensor : 0},
                     {"expert", model.has_experts() ? habits->expert : 0}};
  if (habits->gradient_bytes != 2) job["gradient_bytes"] = habits->gradient_bytes;
  if (habits->compiled) job["compiled"] = true;
  assume_habits(*habits, model);
  return job;
}

nlohmann::ordered_json Asked::scenario() {
  check();
  read_files();
  nlohmann::ordered_json out;
  out["name"] = "layouts";
  out["cluster"] = to_yaml_json(cluster_);
  out["cluster"]["nodes"] = nodes();
  out["job"] = job();
  out["run"]["steps"] = 1;
  return out;
}

}  // namespace

Model asked_model(const std::string& name) {
  if (names_file(name, model_names())) return read_model_file(name).decoder.model;
  Model model;
  model.set_preset(name);
  return model;
}

Topology asked_cluster(const std::string& name) {
  Topology cluster;
  if (!names_file(name, preset_names())) {
    cluster.set_preset(name);
    return cluster;
  }
  const SourceMap places = load_yaml_file(name, cluster);
  Topology checked = cluster;
  resolve(checked, places);
  return cluster;
}

AskedScenario scenario_of(const LayoutQuestion& question,
                          const std::vector<std::string>& overrides) {
  Asked asked(question);
  const std::string text = asked.scenario().dump(1);
  LoadedScenario loaded = parse_scenario(text, "<asked>", overrides);
  const bool own = std::any_of(overrides.begin(), overrides.end(), sets_a_habit);
  const FrameworkHabits* const habits =
      own ? nullptr : habits_of_stack(loaded.scenario.job().stack());
  return {std::move(loaded), std::move(asked.assumed), habits};
}

}  // namespace orrery
