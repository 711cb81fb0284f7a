#include "traces/scenario/replay_conditions.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

std::uint32_t ranks_of_replica(const Layout& layout) {
  return layout.tensor() * layout.context() * layout.pipeline();
}

}  // namespace

bool describes_replay(const std::string& path) {
  std::error_code gone;
  const std::uintmax_t size = std::filesystem::file_size(path, gone);  // valid for regular files
  if (gone || size > kMaxYamlBytes) return false;
  std::ifstream in(path, std::ios::binary);
  try {
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const YamlNode root = parse_yaml_tree(text, path);
    for (std::size_t i = 0; i < root.keys.size(); ++i) {
      if (root.keys[i].name == "trace") return root.items[i].kind == YamlNode::Kind::scalar;
    }
  } catch (const Error&) {  // no YAML
  }
  return false;
}

void complete(ReplayConditions& conditions, const SourceMap& places, const std::string& prefix) {
  for (int i = 0; i < conditions.kinds_size(); ++i) {
    if (conditions.kinds(i).job().has_program()) {
      throw problem_at(places, fmt::format("{}kinds[{}].job.program", prefix, i),
                       "expected a described model, found a recorded program: recorded jobs are "
                       "scaled to other layouts");
    }
    resolve(*conditions.mutable_kinds(i)->mutable_job()->mutable_model(), places,
            fmt::format("{}kinds[{}].job.model", prefix, i));
  }
  fill_defaults(conditions);
  for (int i = 0; i < conditions.kinds_size(); ++i) {
    const std::string kind = fmt::format("{}kinds[{}]", prefix, i);
    for (const Problem& problem : job_problems(conditions.kinds(i).job())) {
      throw problem_at(places, fmt::format("{}.job.{}", kind, problem.path), problem.message);
    }
  }
  if (speed_of(conditions) == JobSpeed::simulated && conditions.kinds().empty()) {
    throw problem_at(places, prefix + "speed",
                     "simulated speed needs 'kinds': what jobs compute is in no log");
  }
}

std::optional<std::size_t> kind_of(const ReplayConditions& conditions, std::string_view name,
                                   std::uint32_t gpus) {
  for (int i = 0; i < conditions.kinds_size(); ++i) {
    const JobKind& kind = conditions.kinds(i);
    const bool sized = gpus >= kind.least_gpus() && gpus <= kind.most_gpus() &&
                       gpus % ranks_of_replica(kind.job().layout()) == 0;
    if (sized && name.starts_with(kind.name())) return static_cast<std::size_t>(i);
  }
  return {};
}

Job job_on(const JobKind& kind, std::uint32_t gpus) {
  Job job = kind.job();
  Layout& layout = *job.mutable_layout();
  const std::uint32_t replicas = gpus / ranks_of_replica(layout);
  const std::uint64_t batch = std::uint64_t{job.global_batch()} * replicas / layout.data();
  job.set_global_batch(static_cast<std::uint32_t>(batch));
  layout.set_data(replicas);
  for (const Problem& problem : job_problems(job)) {
    throw Error(ErrorKind::bad_input,
                fmt::format("a job of {} GPUs of the kind '{}': job.{}: {}", gpus, kind.name(),
                            problem.path, problem.message));
  }
  return job;
}

}  // namespace orrery
