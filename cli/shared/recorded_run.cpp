#include "cli/shared/recorded_run.hpp"

#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/shared/policy_option.hpp"
#include "cli/shared/run_options.hpp"
#include "core/error.hpp"
#include "traces/scenario/scenario.hpp"
#include "traces/workload/recorded_step.hpp"

namespace orrery::cli {
namespace {

/// Returns a text as a quoted scalar of YAML.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

/// Returns the scenario as the file contains it, without defaults.
Scenario written(const std::string& file, SourceMap& places) {
  Scenario scenario;
  places = load_yaml_file(file, scenario);
  if (scenario.has_trace() || scenario.has_collective() ||
      (scenario.has_job() && !scenario.job().has_program())) {
    const char* const work = scenario.has_job()     ? "job"
                             : scenario.has_trace() ? "trace"
                                                    : "collective";
    throw problem_at(places, work,
                     fmt::format("expected no '{}', or a job with 'program', found another kind of "
                                 "work: the recorded step is the job",
                                 work));
  }
  for (const std::string& key : keys_beside_program(scenario.job())) {
    throw problem_at(places, "job." + key,
                     fmt::format("expected no '{}', which the program determines: found one that "
                                 "the rehearsal would contradict; leave the key out",
                                 key));
  }
  return scenario;
}

}  // namespace

Topology RecordedRun::cluster(SourceMap& places) const {
  for (const std::string& policy : policies) check_policy_name(policy);
  return written(file, places).cluster();
}

Report RecordedRun::simulate_recording(const std::string& prefix) const {
  SourceMap places;
  const bool own = written(file, places).has_job();
  std::vector<std::string> overrides{
      own ? "job.program.trace=" + prefix
          : fmt::format("job={{program: {{trace: {}}}}}", quoted(prefix))};
  if (!cluster_text.empty()) overrides.push_back("cluster=" + cluster_text);
  if (!gpu.empty()) overrides.push_back("cluster.node.gpu=" + gpu);
  const LoadedScenario loaded = load_scenario(file, overrides);
  RunRequest request;
  *request.mutable_scenario() = loaded.scenario;
  request.set_folder(std::filesystem::path(file).parent_path().string());
  const std::unique_ptr<Policy> policy = choose_policies(policies, request);
  return run(Worker::sim, request, loaded.places, nullptr, nullptr, policy.get());
}

}  // namespace orrery::cli
