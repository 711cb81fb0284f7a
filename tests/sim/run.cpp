#include "tests/sim/run.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include <fmt/format.h>

#include "core/process.hpp"
#include "core/schema/yaml_writer.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/choose.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/drive.hpp"
#include "sim/worlds.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/failure_model.hpp"

namespace orrery::testing {
namespace {

constexpr char kGood = 'g', kBad = 'b';

/// Keeps the scenario in the folder that the environment variable ORRERY_COLLECT names, if there is
/// one, as tests/equal/collect.py does.
void keep_scenario(const Scenario& scenario, const SimOptions& options) {
  const char* const folder = std::getenv("ORRERY_COLLECT");
  if (folder == nullptr) return;
  const std::string text = to_yaml_json(scenario).dump();
  const std::string detail = options.full_detail ? R"(["--detail", "full"])" : "[]";
  const std::filesystem::path place =
      std::filesystem::path(folder) /
      fmt::format("{:016x}", std::hash<std::string>{}(text + detail));
  std::filesystem::create_directories(place);
  std::ofstream(place / "scenario.json") << detail;
  std::ofstream(place / "scenario.yaml") << text;
}

Report run_here(const LoadedScenario& loaded, const SimOptions& options) {
  keep_scenario(loaded.scenario, options);
  RunRequest request;
  *request.mutable_scenario() = loaded.scenario;
  request.set_full_detail(options.full_detail);
  request.set_timeline(options.timeline);
  request.set_folder(ORRERY_SOURCE_DIR "/examples");
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  const auto stack = make_stack(loaded.scenario, loaded.places);
  *request.mutable_scenario() = with_recorded_faults(loaded.scenario, request.folder());
  const std::unique_ptr<RunBackend> backend = sim::simulated_world(request, cluster, {});
  LogHeader header;
  set_log_format(header, kLogFormat);
  header.set_mode("sim");
  *header.mutable_scenario() = loaded.scenario;
  Recorder recorder(*backend, *stack, header, {.path = options.record});
  Rng rng = policy_rng(loaded.scenario.run().seed());
  Context context{rng, {}};
  Report report;
  report.set_decisions(drive(*stack, recorder, context));
  recorder.finish_log();
  report.set_events(recorder.events());
  report.set_decision_log_sha256(recorder.log_sha256());
  report.set_decision_trace_sha256(recorder.trace_sha256());
  backend->fill(report);
  return report;
}

[[noreturn]] void answer(int descriptor, const std::function<std::string()>& body) {
  std::string message;
  try {
    message = kGood + body();
  } catch (const Error& error) {
    message = std::string{kBad, static_cast<char>(error.kind())} + error.message();
  } catch (const std::exception& error) {
    message = std::string{kBad, static_cast<char>(ErrorKind::internal)} + error.what();
  }
  write_message(descriptor, message);
  _exit(0);
}

}  // namespace

std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  ensure(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a socket pair for the child");
  const pid_t child = fork();
  ensure(child >= 0, "a child for the run");
  if (child == 0) {
    close(ends[0]);
    answer(ends[1], body);
  }
  close(ends[1]);
  const auto message = read_message(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ensure(message.has_value(), fmt::format("the child answers (its status is {})", status));
  if (message->front() == kGood) return message->substr(1);
  throw Error(static_cast<ErrorKind>((*message)[1]), message->substr(2));
}

std::vector<double> numbers_in_child(const std::function<std::vector<double>()>& body) {
  const std::string bytes = in_child([&] {
    const std::vector<double> numbers = body();
    return std::string(reinterpret_cast<const char*>(numbers.data()),
                       numbers.size() * sizeof(double));
  });
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

Report simulate(const LoadedScenario& loaded, const SimOptions& options) {
  Report report;
  ensure(report.ParseFromString(
             in_child([&] { return run_here(loaded, options).SerializeAsString(); })),
         "the child writes a report");
  return report;
}

LoadedScenario load_example(const std::string& file, const std::vector<std::string>& overrides) {
  return load_scenario(std::string(ORRERY_SOURCE_DIR) + "/examples/" + file, overrides);
}

Report simulate_example(const std::string& file, const std::vector<std::string>& overrides,
                        const std::string& policy, const SimOptions& options) {
  LoadedScenario loaded = load_example(file, overrides);
  if (!policy.empty()) choose_policy(loaded.scenario, policy);
  return simulate(loaded, options);
}

LoadedScenario small_scenario(int tensor, int pipeline, int data, const std::string& faults,
                              const std::vector<std::string>& overrides) {
  const int nodes = (tensor * pipeline * data + 7) / 8;
  const std::string text = fmt::format(R"(
name: small
cluster:
  nodes: {}
  node: {{gpu: H100, gpus_per_node: 8, nics_per_node: 8, nic_bandwidth: 400 Gbps}}
  fabric: {{nodes_per_unit: 4, spines: 8, spine_link_bandwidth: 400 Gbps}}
job:
  model: {{layers: 8, hidden: 2048, heads: 16, feed_forward: 8192, vocabulary: 32000}}
  sequence_length: 2048
  global_batch: {}
  layout: {{tensor: {}, pipeline: {}, data: {}}}
  bucket: 64 MiB
run: {{steps: 6}}
noise: {{compute_cv: 0, sample_cv: 0, staleness: 0 ms}}
{})", nodes, data * 8, tensor, pipeline, data, faults);
  return parse_scenario(text, "small.yaml", overrides);
}

}  // namespace orrery::testing
