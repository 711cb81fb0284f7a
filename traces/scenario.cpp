#include "traces/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/schema/json.hpp"
#include "topologies/builder.hpp"
#include "traces/layout_check.hpp"
#include "traces/model.hpp"

namespace orrery {
namespace {

std::uint64_t rank_count(const Layout& layout) {
  return std::uint64_t{layout.tensor()} * layout.context() * layout.pipeline() * layout.data();
}

/// Collects what is wrong across fields, each with its place.
class CrossCheck {
 public:
  CrossCheck(const Scenario& scenario, const SourceMap& places)
      : scenario_(scenario), places_(places) {}

  std::vector<Error> run() {
    if (!check_work() || !scenario_.has_job()) return std::move(errors_);
    for (const Problem& problem : job_problems(scenario_.job())) {
      add("job." + problem.path, problem.message);
    }
    check_room();
    for (int i = 0; i < scenario_.faults_size(); ++i) {
      check_fault(scenario_.faults(i), fmt::format("faults[{}]", i));
    }
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
    if (scenario_.policies_size() > 0) {
      add("policies[0]", fmt::format("a {} leaves a policy nothing to decide", work));
    }
    if (scenario_.faults_size() > 0) {
      add("faults[0]", fmt::format("faults happen to jobs, not to a {}", work));
    }
    const Topology& cluster = scenario_.cluster();
    const std::uint64_t gpus = std::uint64_t{cluster.node().gpus_per_node()} * cluster.nodes();
    const std::uint64_t ranks = scenario_.has_trace() ? scenario_.trace().ranks()
                                                      : scenario_.collective().ranks();
    if (ranks <= gpus) return;
    add(fmt::format("{}.ranks", work),
        fmt::format("{} ranks, but the cluster has {} GPUs", ranks, gpus));
  }

  void check_room() {
    const Layout& layout = scenario_.job().layout();
    const Topology& cluster = scenario_.cluster();
    const std::uint64_t per_node = cluster.node().gpus_per_node();
    const std::uint64_t gpus = per_node * cluster.nodes();
    if (rank_count(layout) > gpus) {
      add("job.layout", fmt::format("tensor x context x pipeline x data = {} ranks, but the "
                                    "cluster has {} GPUs",
                                    rank_count(layout), gpus));
    }
    const std::uint64_t together =
        per_node * std::max<std::uint64_t>(1, cluster.node().nvlink_domain());
    if (layout.tensor() > together || together % layout.tensor() != 0) {
      add("job.layout.tensor", fmt::format("a tensor-parallel group stays inside a node: {} must "
                                           "divide its {} GPUs (all of its NVLink domain)",
                                           layout.tensor(), together));
    }
  }

  void check_fault(const Fault& fault, const std::string& path) {
    if (int(fault.has_at_step()) + int(fault.has_at_time()) != 1) {
      add(path, "a fault has exactly one of at_step and at_time");
    }
    const int kinds = int(fault.has_slow()) + int(fault.has_ramp()) + int(fault.kill()) +
                      int(fault.has_link_slow()) + int(fault.link_down()) + int(fault.stop());
    if (kinds != 1) {
      add(path, "a fault has exactly one of slow, ramp, kill, stop, link_slow and link_down");
    }
    const std::uint64_t ranks = rank_count(scenario_.job().layout());
    if (fault.rank() >= ranks) {
      add(path + ".rank", fmt::format("there is no rank {}: the job has ranks 0 to {}",
                                      fault.rank(), ranks - 1));
    }
    if (fault.has_ramp() && !fault.has_at_step()) {
      add(path + ".ramp", "a ramp is counted in steps: it needs at_step");
    }
    if (!fault.has_until_step()) return;
    if (fault.kill() || fault.stop()) {
      add(path + ".until_step",
          fault.kill() ? "a killed rank stays dead: until_step means nothing here"
                       : "a rank that stands still is given up: until_step means nothing here");
    } else if (!fault.has_at_step() || fault.until_step() <= fault.at_step()) {
      add(path + ".until_step", "until_step needs an at_step before it");
    }
  }

  const Scenario& scenario_;
  const SourceMap& places_;
  std::vector<Error> errors_;
};

/// Presets, then defaults: the other way round, defaults would hide what a preset says.
void complete(Scenario& scenario, const SourceMap& places) {
  resolve(*scenario.mutable_cluster(), places, "cluster");
  if (scenario.has_job()) resolve(*scenario.mutable_job()->mutable_model(), places, "job.model");
  scenario.mutable_live();  // not made by itself: some of its fields have no default
  fill_defaults(scenario);
}

void throw_first(const std::vector<Error>& errors) {
  if (!errors.empty()) throw errors.front();
}

LoadedScenario finish(LoadedScenario loaded, const std::vector<std::string>& overrides) {
  for (const std::string& each : overrides) {
    const std::size_t equals = each.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(ErrorKind::usage,
                  fmt::format("an override is written path=value, not '{}'", each));
    }
    set_field(loaded.scenario, std::string_view(each).substr(0, equals),
              std::string_view(each).substr(equals + 1), "--set");
  }
  complete(loaded.scenario, loaded.places);
  throw_first(CrossCheck(loaded.scenario, loaded.places).run());
  return loaded;
}

/// How much slower a fault makes its rank at a step.
double slowness(const Fault& fault, std::uint64_t step) {
  if (!fault.has_at_step() || step < fault.at_step()) return 1;
  if (fault.has_until_step() && step >= fault.until_step()) return 1;
  if (fault.has_slow()) return fault.slow();
  if (!fault.has_ramp()) return 1;
  const double share = static_cast<double>(step - fault.at_step()) /
                       static_cast<double>(fault.ramp().steps());
  return 1 + (fault.ramp().slow() - 1) * std::min(1.0, share);
}

}  // namespace

LoadedScenario load_scenario(const std::string& path, const std::vector<std::string>& overrides) {
  LoadedScenario loaded;
  loaded.places = load_yaml_file(path, loaded.scenario);
  return finish(std::move(loaded), overrides);
}

LoadedScenario parse_scenario(std::string_view text, const std::string& file,
                              const std::vector<std::string>& overrides) {
  LoadedScenario loaded;
  loaded.places = load_yaml(text, file, loaded.scenario);
  return finish(std::move(loaded), overrides);
}

std::vector<Error> check_scenario(std::string_view text, const std::string& file,
                                  std::size_t limit) {
  Scenario scenario;
  std::vector<Error> errors = check_yaml(text, file, scenario, limit);
  if (!errors.empty()) return errors;
  try {
    const SourceMap places = load_yaml(text, file, scenario);
    complete(scenario, places);
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
  return canonical_hash(seedless);
}

double speed_at_step(const Scenario& scenario, std::uint32_t rank, std::uint64_t step) {
  double speed = 1;
  for (const Fault& fault : scenario.faults()) {
    if (fault.rank() == rank) speed /= slowness(fault, step);
  }
  return speed;
}

double ideal_makespan(const std::vector<double>& speeds, std::uint32_t micro_batches, double cost) {
  double sum = 0;
  for (const double speed : speeds) {
    ensure(speed > 0, "speeds are positive");
    sum += speed;
  }
  ensure(!speeds.empty(), "there is a replica");
  // No assignment beats the fluid finish time, and every best one gives each replica at least
  // what it completes by then; the rest goes greedily, which is optimal for equal micro-batches.
  struct Replica {
    double finish;  ///< with one micro-batch more
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
