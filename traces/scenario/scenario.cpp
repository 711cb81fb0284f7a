#include "traces/scenario/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/schema/json.hpp"
#include "core/schema/moved_keys.hpp"
#include "topologies/builder.hpp"
#include "topologies/part.hpp"
#include "traces/chakra/recording.hpp"
#include "traces/scenario/failure_model.hpp"
#include "traces/scenario/fault_script.hpp"
#include "traces/scenario/replay_conditions.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/recorded_step.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;

std::uint64_t rank_count(const Layout& layout) {
  return std::uint64_t{layout.tensor()} * layout.context() * layout.pipeline() * layout.data();
}

/// Limit of all fractions of parts together, because a list of them is stored.
constexpr std::uint64_t kMostPartsHit = 10'000'000;

/// Returns the duration of a stop that begins and ends at instants.
Nanos stall_of(const Fault& fault) {
  return fault.has_for_() ? fault.for_() : fault.until_time() - fault.at_time();
}

bool is_network(std::optional<PartKind> kind) {
  return kind && *kind != PartKind::gpu && *kind != PartKind::node && *kind != PartKind::storage;
}

/// Returns path and message of the first fault that cannot happen to a trace or a single collective
/// (`work`); empty if all can. A collective has no ranks that are lost, but links that fail.
std::pair<std::string, std::string> unsuitable_fault(const Scenario& scenario, const char* work) {
  const bool links_only = scenario.has_collective();
  const std::string found =
      links_only ? "expected faults of links, cables, ports, NICs, switches or planes: a "
                   "collective has no ranks that are lost"
                 : fmt::format("faults happen to jobs, not to a {}", work);
  for (int i = 0; i < scenario.faults_size(); ++i) {
    if (links_only && is_network(part_kind(scenario.faults(i)))) continue;
    return {fmt::format("faults[{}]", i), found};
  }
  for (const FailureKind& kind : failure_kinds(scenario.failures())) {
    if (!links_only || !is_network(part_kind(kind))) return {"failures", found};
  }
  return {};
}

/// Returns the problems of the keys about cluster.storage, with paths from the root.
std::vector<Problem> storage_problems(const Scenario& scenario) {
  const Checkpoints& saved = scenario.checkpoints();
  const bool reads = scenario.job().input().has_stored();
  std::vector<Problem> problems;
  for (const auto& [has, key] : {std::pair(saved.has_bytes(), "checkpoints.bytes"),
                                 std::pair(reads, "job.input.stored")}) {
    if (!has || scenario.cluster().has_storage()) continue;
    problems.push_back({key, "expected a file system that the bytes go to, found none: write "
                             "cluster.storage, with its bandwidth, or remove the key"});
  }
  const bool shared = !saved.storage().empty();
  const Nanos write = shared ? saved.write_storage() : saved.write();
  if (saved.has_bytes() && write > 0) {
    problems.push_back({"checkpoints.bytes",
                        fmt::format("expected bytes or a time for the checkpoints of {0}, found "
                                    "both: remove checkpoints.bytes or checkpoints.{1}",
                                    shared ? "the tier storage" : "the folder",
                                    shared ? "write_storage" : "write")});
  }
  for (int i = 0; i < scenario.jobs_size(); ++i) {
    if (!scenario.jobs(i).job().input().has_stored()) continue;
    problems.push_back({fmt::format("jobs[{}].job.input.stored", i),
                        "expected reads without traffic in a job beside another, found bytes: "
                        "remove the key"});
  }
  if (!scenario.cluster().has_storage()) return problems;
  if (!saved.has_bytes() && !reads) {
    problems.push_back({"cluster.storage", "expected traffic with the file system, found none: "
                                           "write checkpoints.bytes, job.input.stored or both, or "
                                           "remove the key"});
  }
  if (scenario.jobs_size() > 0) {
    problems.push_back({"cluster.storage", "expected one training job, found the key jobs: traffic "
                                           "of several jobs with one file system is not simulated; "
                                           "remove one of the keys"});
  }
  return problems;
}

/// Collector of problems across fields, each with its place.
class CrossCheck {
 public:
  CrossCheck(const Scenario& scenario, const SourceMap& places)
      : scenario_(scenario), places_(places) {}

  std::vector<Error> run() {
    if (scenario_.name().find_first_of("\n\t") != std::string::npos) {
      add("name", "expected a name on one line, got one with a line break or a tab");
    }
    if (!check_work()) return std::move(errors_);
    for (const Problem& each : storage_problems(scenario_)) add(each.path, each.message);
    for (int i = 0; i < scenario_.jobs_size(); ++i) {
      const std::string path = fmt::format("jobs[{}].", i);
      check_job(scenario_.jobs(i).job(), path, scenario_.jobs(i).first_gpu());
    }
    if (!scenario_.has_job()) return std::move(errors_);
    check_job(scenario_.job(), "", 0);
    for (int i = 0; i < scenario_.faults_size(); ++i) {
      check_fault(scenario_.faults(i), fmt::format("faults[{}]", i));
    }
    if (scenario_.has_failures()) check_failures();
    return std::move(errors_);
  }

 private:
  void add(const std::string& path, const std::string& message) {
    errors_.push_back(problem_at(places_, path, message));
  }

  /// Whether there is exactly one thing to run.
  bool check_work() {
    const int works = int(scenario_.has_job()) + int(scenario_.has_trace()) +
                      int(scenario_.has_collective());
    if (works == 0) {
      add("", "missing key 'job': what runs is a job, a trace or a collective");
    } else if (works > 1) {
      const char* const second = scenario_.has_collective() ? "collective" : "trace";
      add(second, fmt::format("'{}' beside another kind of work: a scenario has exactly one of "
                              "job, trace and collective", second));
    } else if (!scenario_.has_job()) {
      check_replayed();
    }
    return works == 1;
  }

  /// Traces and lone collectives run as they are: nobody steers them, nothing happens to them.
  void check_replayed() {
    const char* const work = scenario_.has_trace() ? "trace" : "collective";
    const bool others = scenario_.jobs_size() > 0 || scenario_.has_recorded();
    if (scenario_.policies_size() > 0 && !others) {
      add("policies[0]", fmt::format("a {} leaves a policy nothing to decide", work));
    }
    const auto [path, message] = unsuitable_fault(scenario_, work);
    if (!path.empty()) add(path, message);
    const Topology& cluster = scenario_.cluster();
    const std::uint64_t gpus = std::uint64_t{cluster.node().gpus_per_node()} * cluster.nodes();
    const std::uint64_t ranks = scenario_.has_trace() ? scenario_.trace().ranks()
                                                      : scenario_.collective().ranks();
    if (ranks <= gpus) return;
    add(fmt::format("{}.ranks", work),
        fmt::format("{} ranks, but the cluster has {} GPUs", ranks, gpus));
  }

  /// `path`: of the message whose `job` this is.
  void check_job(const Job& job, const std::string& path, std::uint32_t first_gpu) {
    for (const Problem& problem : job_problems(job)) {
      add(path + "job." + problem.path, problem.message);
    }
    const Layout& layout = job.layout();
    const Topology& cluster = scenario_.cluster();
    const std::uint64_t per_node = cluster.node().gpus_per_node();
    const std::uint64_t gpus = per_node * cluster.nodes();
    if (rank_count(layout) > gpus) {
      add(path + "job.layout", fmt::format("tensor x context x pipeline x data = {} ranks, but "
                                           "the cluster has {} GPUs",
                                           rank_count(layout), gpus));
    } else if (first_gpu + rank_count(layout) > gpus) {
      add(path + "first_gpu", fmt::format("{} ranks from GPU {} on, but the cluster has {} GPUs",
                                          rank_count(layout), first_gpu, gpus));
    }
    const std::uint64_t together =
        per_node * std::max<std::uint64_t>(1, cluster.node().nvlink_domain());
    if (layout.tensor() > together || together % layout.tensor() != 0) {
      add(path + "job.layout.tensor",
          fmt::format("a tensor-parallel group stays inside a node: {} must divide its {} GPUs "
                      "(all of its NVLink domain)",
                      layout.tensor(), together));
    }
  }

  /// A step belongs to one job, so a fault that affects all jobs needs a time.
  bool check_trigger(const Fault& fault, const std::string& path) {
    if (scenario_.jobs_size() == 0 || !fault.has_at_step() || !part_kind(fault)) return true;
    add(path + ".at_step", "beside other jobs a part of the cluster breaks at a time, not at a "
                           "step: write at_time");
    return false;
  }

  void check_fault(const Fault& fault, const std::string& path) {
    if (!check_trigger(fault, path) || !check_target(fault, path)) return;
    if (fault.has_ramp() && !fault.has_at_step()) {
      add(path + ".ramp", "a ramp is counted in steps: it needs at_step");
    }
    if (fault.end_case() != Fault::END_NOT_SET) check_end(fault, path);
    check_plan(fault, path);
    check_times(fault, path);
  }

  /// Checks the announcement of a removal, and the test after it.
  void check_plan(const Fault& fault, const std::string& path) {
    const bool notice = fault.warning_case() != Fault::WARNING_NOT_SET;
    if (!notice && !fault.has_test()) return;
    const std::string key = notice ? written(fault, fault.warning_case()) : "test";
    const std::optional<PartKind> part = part_kind(fault);
    if (!fault.has_down() || (part != PartKind::gpu && part != PartKind::node)) {
      return add(path + "." + key, fmt::format("expected '{}' of a GPU or node that goes down; "
                                               "write gpu or node, and down: true", key));
    }
    if (fault.has_notice() && !fault.has_at_time()) {
      add(path + ".notice", "expected a removal at a time, found one at a step: write at_time, or "
                            "notice_steps for a removal at a step");
    }
    if (fault.has_notice_steps() && !fault.has_at_step()) {
      add(path + ".notice_steps", "expected a removal at a step, found one at a time: write "
                                  "at_step, or notice for a removal at a time");
    }
    if (fault.has_test() && fault.end_case() == Fault::END_NOT_SET) {
      add(path + ".test", "expected a part that returns, found no end of the fault: write "
                          "until_step, until_time or 'for'");
    }
  }

  /// Checks that a fault with times of its own ends ranks.
  void check_times(const Fault& fault, const std::string& path) {
    const std::optional<PartKind> part = part_kind(fault);
    const bool hardware = fault.has_down() && (part == PartKind::gpu || part == PartKind::node);
    if (fault.has_corrupted() && !fault.has_kill() && !hardware) {
      add(path + ".corrupted", "expected 'corrupted' of a fault that ends ranks at once: kill, or "
                               "down of a gpu or node");
    }
    if (fault.has_kill() || fault.has_stop() || hardware) return;
    for (const auto& [key, has] :
         {std::pair("detection", fault.has_detection()), std::pair("restart", fault.has_restart()),
          std::pair("replacement", fault.has_replacement())}) {
      if (!has) continue;
      add(path + "." + key, fmt::format("expected '{}' of a fault that ends ranks: kill, stop, or "
                                        "down of a gpu or node",
                                        key));
    }
  }

  /// Checks that the target exists and supports the effect.
  bool check_target(const Fault& fault, const std::string& path) {
    const std::string kind = written(fault, fault.kind_case());
    const std::string target = path + "." + written(fault, fault.target_case());
    const std::optional<PartKind> part = part_kind(fault);
    if (part.has_value() != happens_to_parts(fault.kind_case())) {
      add(path + "." + kind,
          fmt::format("expected one of {} for a {}, got '{}'", kinds_of(part.has_value()),
                      part ? name_of(*part) : "rank", kind));
      return false;
    }
    if (part) return check_part(fault, *part, target);
    const std::uint64_t ranks = rank_count(scenario_.job().layout());
    if (fault.rank() < ranks) return true;
    add(target, fmt::format("there is no rank {}: the job has ranks 0 to {}", fault.rank(),
                            ranks - 1));
    return false;
  }

  const Cluster& cluster() {
    if (!cluster_) cluster_ = build_cluster(scenario_.cluster(), places_, "cluster");
    return *cluster_;
  }

  void check_failures() {
    for (const FailureProblem& each : failure_problems(scenario_.failures(), cluster())) {
      add("failures." + each.path, each.message);
    }
  }

  bool check_part(const Fault& fault, PartKind kind, const std::string& target) {
    const std::uint32_t all = count_of(cluster(), kind);
    if (all == 0) {
      add(target, fmt::format("this cluster has no {}", name_of(kind)));
    } else if (!hits_share(fault)) {
      if (hit_index(fault) < all) return true;
      add(target, fmt::format("there is no {0} {1}: the cluster's are 0 to {2}", name_of(kind),
                              hit_index(fault), all - 1));
    } else if (parts_hit(fault, all) == 0) {
      add(target, fmt::format("so small a share of {} is none", all));
    } else if ((parts_hit_ += parts_hit(fault, all)) > kMostPartsHit) {
      add(target, fmt::format("with this share faults hit {} parts, at most {} may be", parts_hit_,
                              kMostPartsHit));
    } else {
      return true;
    }
    return false;
  }

  void check_end(const Fault& fault, const std::string& path) {
    const std::string end = written(fault, fault.end_case());
    const std::string place = path + "." + end;
    if (fault.kill()) {
      add(place, fmt::format("a killed rank stays dead: {} means nothing here", end));
    } else if (fault.stop() && (fault.has_until_step() || !fault.has_at_time())) {
      add(place, fmt::format("expected a stop that begins at an instant and ends at one, found {}: "
                             "write at_time, and 'for' or until_time",
                             end));
    } else if (fault.stop() && stall_of(fault) <= scenario_.survival().heartbeat_timeout()) {
      add(place, fmt::format("expected a stop of more than survival.heartbeat_timeout ({:g} s), "
                             "after which the rank is lost, found {:g} s: write a longer stop, or "
                             "slow",
                             to_seconds(scenario_.survival().heartbeat_timeout()),
                             to_seconds(stall_of(fault))));
    } else if (fault.has_until_step()) {
      if (fault.has_at_step() && fault.until_step() > fault.at_step()) return;
      add(place, "until_step needs an at_step before it");
    } else if (fault.has_for_()) {
      if (fault.has_at_time()) return;
      add(place, "'for' counts from an instant: it needs at_time; write until_step or until_time");
    } else if (fault.has_at_time() && fault.until_time() <= fault.at_time()) {
      add(place, "until_time must be after at_time");
    }
  }

  /// The kinds of faults that happen to parts, or those that happen to ranks.
  static std::string kinds_of(bool parts) {
    std::vector<std::string> kinds;
    const auto& choice = *Fault::descriptor()->FindOneofByName("kind");
    for (int i = 0; i < choice.field_count(); ++i) {
      const auto kind = static_cast<Fault::KindCase>(choice.field(i)->number());
      if (happens_to_parts(kind) == parts) kinds.push_back(choice.field(i)->name());
    }
    return fmt::format("{}", fmt::join(kinds, ", "));
  }

  /// The key of the choice that was made.
  static std::string written(const Fault& fault, int number) {
    return fault.GetDescriptor()->FindFieldByNumber(number)->name();
  }

  const Scenario& scenario_;
  const SourceMap& places_;
  std::optional<Cluster> cluster_;  ///< built for faults of its parts
  std::uint64_t parts_hit_ = 0;     ///< parts hit by fractions, all together
  std::vector<Error> errors_;
};

/// A run of so many tokens is one of so many steps.
void count_steps(Scenario& scenario, const SourceMap& places) {
  const Job& job = scenario.job();
  if (!scenario.has_job()) {
    throw problem_at(places, "run.tokens", "only a training job sees tokens; write run.steps");
  }
  const std::uint64_t step = std::uint64_t{job.global_batch()} * job.sequence_length();
  const std::uint64_t tokens = scenario.run().tokens();
  scenario.mutable_run()->set_steps(tokens / step + (tokens % step > 0 ? 1 : 0));
}

/// Reads the recording of a program in `folder`, and fills in the values that follow from it.
void complete_recorded(Job& job, const SourceMap& places, const std::string& path,
                       const fs::path& folder) {
  RecordedProgram& program = *job.mutable_program();
  for (const std::string& key : keys_beside_program(job)) {
    throw problem_at(places, path + "." + key,
                     fmt::format("expected no '{}' beside 'program': the recording determines it, "
                                 "leave the key out",
                                 key));
  }
  if (program.has_sums() && program.command().empty()) {
    throw problem_at(places, path + ".program.sums",
                     "expected no 'sums' without 'command': only the start of the command reads "
                     "the key, leave it out");
  }
  try {
    program.set_trace(fs::absolute(folder / program.trace()).lexically_normal().string());
    *program.mutable_step() = read_recording(program.trace());
  } catch (const Error& error) {
    throw problem_at(places, path + ".program.trace", error.what());
  }
  complete_program(job);
}

void complete_job(Job& job, const SourceMap& places, const std::string& path,
                  const fs::path& folder) {
  if (job.has_program()) return complete_recorded(job, places, path, folder);
  resolve(*job.mutable_model(), places, path + ".model");
}

/// Presets first, then defaults: defaults would hide the preset's values. `file`: the scenario's;
/// other files are named relative to its folder.
void complete(Scenario& scenario, const SourceMap& places, const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  resolve(*scenario.mutable_cluster(), places, "cluster");
  if (scenario.has_job()) complete_job(*scenario.mutable_job(), places, "job", folder);
  for (int i = 0; i < scenario.jobs_size(); ++i) {
    complete_job(*scenario.mutable_jobs(i)->mutable_job(), places, fmt::format("jobs[{}].job", i),
                 folder);
  }
  if (scenario.recorded().has_conditions()) {
    complete(*scenario.mutable_recorded()->mutable_conditions(), places, "recorded.conditions.");
  }
  scenario.mutable_live();  // not made by itself: some of its fields have no default
  fill_defaults(scenario);
  if (scenario.run().has_tokens()) count_steps(scenario, places);
}

void throw_first(const std::vector<Error>& errors) {
  if (!errors.empty()) throw errors.front();
}

LoadedScenario finish(LoadedScenario loaded, const std::string& file,
                      const std::vector<std::string>& overrides) {
  for (const std::string& each : overrides) {
    const std::size_t equals = each.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(ErrorKind::usage,
                  fmt::format("an override is written path=value, not '{}'", each));
    }
    const std::string_view path = std::string_view(each).substr(0, equals);
    const std::string_view value = std::string_view(each).substr(equals + 1);
    set_field(loaded.scenario, path, value, "--set");
    loaded.places.add_override(present_path("orrery.Scenario", path), each, "--set");
  }
  complete(loaded.scenario, loaded.places, file);
  throw_first(CrossCheck(loaded.scenario, loaded.places).run());
  return loaded;
}

}  // namespace

LoadedScenario load_scenario(const std::string& path, const std::vector<std::string>& overrides) {
  LoadedScenario loaded;
  try {
    loaded.places = load_yaml_file(path, loaded.scenario);
  } catch (const Error& error) {
    if (!error.source_place() || !describes_replay(path)) throw;
    throw Error(SourcePlace{.file = path, .line_text = ""},
                "expected a scenario, got the replay of a job trace: those run under orrery jobs");
  }
  return finish(std::move(loaded), path, overrides);
}

LoadedScenario parse_scenario(std::string_view text, const std::string& file,
                              const std::vector<std::string>& overrides) {
  LoadedScenario loaded;
  loaded.places = load_yaml(text, file, loaded.scenario);
  return finish(std::move(loaded), file, overrides);
}

std::vector<Error> check_scenario(std::string_view text, const std::string& file,
                                  std::size_t limit) {
  Scenario scenario;
  std::vector<Error> errors = check_yaml(text, file, scenario, limit);
  if (!errors.empty()) return errors;
  try {
    const SourceMap places = load_yaml(text, file, scenario);
    complete(scenario, places, file);
    build_cluster(scenario.cluster(), places, "cluster");
    errors = CrossCheck(scenario, places).run();
  } catch (const Error& error) {
    errors.push_back(error);
  }
  if (errors.size() > limit) errors.erase(errors.begin() + std::ptrdiff_t(limit), errors.end());
  return errors;
}

void set_ranks(LoadedScenario& loaded, std::uint32_t ranks) {
  Scenario& scenario = loaded.scenario;
  if (!scenario.has_job()) {
    throw problem_at(loaded.places, scenario.has_trace() ? "trace" : "collective",
                     "only a job runs with another number of ranks");
  }
  Layout& layout = *scenario.mutable_job()->mutable_layout();
  if (rank_count(layout) == ranks) return;
  if (!scenario.elastic()) {
    throw problem_at(loaded.places, "job.layout",
                     fmt::format("the job has {} ranks; it runs with {} only where the scenario "
                                 "says elastic: true",
                                 rank_count(layout), ranks));
  }
  const std::uint64_t replica = rank_count(layout) / layout.data();
  if (ranks == 0 || ranks % replica != 0) {
    throw problem_at(loaded.places, "job.layout",
                     fmt::format("{} ranks are no multiple of tensor x context x pipeline = {}",
                                 ranks, replica));
  }
  layout.set_data(static_cast<std::uint32_t>(ranks / replica));
  throw_first(CrossCheck(scenario, loaded.places).run());
}

std::string scenario_hash(const Scenario& scenario) {
  Scenario seedless = scenario;
  seedless.mutable_run()->clear_seed();
  if (seedless.has_live()) seedless.mutable_live()->clear_fabric();
  if (seedless.job().has_program()) {
    seedless.mutable_job()->mutable_program()->clear_trace();
    seedless.mutable_job()->mutable_program()->clear_sums();
  }
  return canonical_hash(seedless);
}

double ideal_makespan(const std::vector<double>& speeds, std::uint32_t micro_batches, double cost) {
  double sum = 0;
  for (const double speed : speeds) {
    ensure(speed > 0, "speeds are positive");
    sum += speed;
  }
  ensure(!speeds.empty(), "there is a replica");
  // No assignment beats the fluid finish time, and every best one gives each replica at least the
  // micro-batches that it completes by then; the rest is assigned greedily, which is optimal for
  // equal micro-batches.
  struct Replica {
    double finish;  ///< finish with one micro-batch more
    double speed;
  };
  const auto later = [](const Replica& a, const Replica& b) { return a.finish > b.finish; };
  std::vector<Replica> heap;
  std::uint64_t given = 0;
  double makespan = 0;
  for (const double speed : speeds) {
    const double own = std::max(0.0, std::floor(micro_batches * speed / sum - 1e-9));
    given += static_cast<std::uint64_t>(own);
    makespan = std::max(makespan, own / speed);
    heap.push_back({(own + 1) / speed, speed});
  }
  std::make_heap(heap.begin(), heap.end(), later);
  for (; given < micro_batches; ++given) {
    std::pop_heap(heap.begin(), heap.end(), later);
    makespan = std::max(makespan, heap.back().finish);
    heap.back().finish += 1 / heap.back().speed;
    std::push_heap(heap.begin(), heap.end(), later);
  }
  return makespan * cost;
}

}  // namespace orrery
