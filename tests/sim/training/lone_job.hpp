// One training job without a simulated world: no backend, no calendar, no SimGrid, no process of
// its own. A World takes its events, the steps are priced by the free engine, and the test calls
// the functions of the job itself. For tests only.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policies/seam/fabric_rules.hpp"
#include "policies/seam/gate.hpp"
#include "sim/estimates/engine/free_engine.hpp"
#include "sim/training/placement.hpp"
#include "sim/training/step_sequence.hpp"
#include "sim/training/training_snapshot.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::testing {

/// A job of one rank per replica with all that it needs.
class LoneJob : public Carrier {
 public:
  explicit LoneJob(const std::string& faults = {}, const std::vector<std::string>& overrides = {},
                   int replicas = 4)
      : loaded_(small_scenario(
            1, 1, replicas, faults.empty() ? faults : "faults:\n" + faults, overrides)),
        cluster_(build_cluster(loaded_.scenario.cluster(), loaded_.places)),
        setup_(setup_of(loaded_.scenario, cluster_)) {
    state_.emplace(sim::initial_state(here));
  }
  /// A job with the world of another one; its state follows from `make`.
  template <class Make>
  LoneJob(const LoneJob& other, const Make& make)
      : loaded_(other.loaded_),
        cluster_(build_cluster(loaded_.scenario.cluster(), loaded_.places)),
        setup_(setup_of(loaded_.scenario, cluster_)),
        world_(other.world_) {
    state_.emplace(make(here));
  }

  sim::TrainingState& state() { return *state_; }
  const JobInfo& info() const { return here.job(state_->id); }
  const World& world() const { return world_; }
  /// Replaces the world by a copy of `world`, whose cluster must outlive the job.
  void enter_world(const World& world) { world_ = world; }
  const std::vector<Event>& events() const { return events_; }

  /// Submits the job and places it on its first GPUs.
  void start() {
    const Standing& where = state().fits.first->where();
    JobSpec spec;
    spec.id = {0};
    spec.gpus = static_cast<std::uint32_t>(where.gpus.size());
    spec.layout = where.layout;
    spec.least_gpus = where.layout.ranks_per_replica();
    spec.micro_batches = state().fit().graph().micro_batches();
    spec.steps = setup_.scenario().run().steps();
    spec.can = settable(setup_.scenario());
    state().submitted = true;
    here.emit_event(JobSubmitted{spec});
    sim::place_initially(here, state(), {.job = {0}, .epoch = {1}, .from = 0, .where = where});
  }
  /// Applies a decision in the world, and there alone.
  void decide_in_world(const Action& what) {
    world_.announce_decision({.id = 0, .what = what});
    here.emit_event(Decided{0, Outcome::applied, ""});
  }
  /// Opens the next step; it must be able to begin.
  void open_step() {
    state().now = std::max(state().now, state().resume_at);
    EXPECT_TRUE(sim::can_begin_step(here, state()));
    sim::enter_new_step(here, state());
    sim::begin_steps(here, state(), watch);
    EXPECT_TRUE(state().open);
  }
  /// Ends the open step at its end.
  void close_step() {
    state().now = state().step_end();
    sim::close_step(here, state(), watch);
  }
  /// Returns the events of one kind, oldest first.
  template <class E>
  std::vector<E> events_of() const {
    std::vector<E> found;
    for (const Event& event : events_) {
      if (const auto* each = std::get_if<E>(&event)) found.push_back(*each);
    }
    return found;
  }
  void run_steps(int count) {
    for (int i = 0; i < count; ++i) open_step(), close_step();
  }
  std::string bytes() const { return sim::write_state(*state_); }

  // Carrier
  std::string refusal(const Decision&) const override { return {}; }
  bool is_step_open(JobId) const override { return state_->open.has_value(); }
  void emit_event(Event event) override { here.emit_event(std::move(event)); }
  void carry_out(const Decision&) override {}

 private:
  static sim::TrainingSetup setup_of(const Scenario& scenario, const Cluster& cluster) {
    sim::TrainingSetup setup{.request = {}, .arrival = {.first_gpu = 0}, .cluster = &cluster};
    *setup.request.mutable_scenario() = scenario;
    return setup;
  }

  LoadedScenario loaded_;
  Cluster cluster_;
  const sim::TrainingSetup setup_;
  World world_{cluster_};
  DecisionGate gate_{world_, {}, *this};
  std::vector<Event> events_;
  std::optional<sim::TrainingState> state_;

 public:
  sim::JobModel::Watch watch;
  sim::JobInWorld here{setup_, world_, gate_,
                  [this](Event event) {
                    world_.apply(event, state_->now);
                    events_.push_back(std::move(event));
                  },
                  std::make_shared<sim::Contention>(),
                  {.setup = &setup_, .options = {}, .engine = estimates::free_engine,
                   .seed = setup_.noise_seed(1)}};
};

}  // namespace orrery::testing
