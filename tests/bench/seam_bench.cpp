// Cost of the interface: an event on its way from a backend to a policy, a loss among very many
// ranks, a million jobs that pass through a world, and reading a very large assignment. CPU time.
// ./dev bench seam
#include <malloc.h>

#include <benchmark/benchmark.h>

#include "policies/record/recorder.hpp"
#include "policies/seam/drive.hpp"
#include "policies/seam/gate.hpp"
#include "policies/seam/static_policy.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kMany = 131072;

/// Shows `batch` events at a time of a job that makes steps, until there were `events`.
class Steps : public Backend {
 public:
  Steps(const Cluster& cluster, std::uint64_t events, std::size_t batch)
      : world_(cluster), left_(events), batch_(batch) {
    toy::run_on(world_, toy::job());
  }
  Capabilities capabilities() const override { return {}; }
  const Cluster& cluster() const override { return world_.cluster(); }
  void begin(const Needs&) override {}
  std::optional<Observation> next() override {
    if (left_ == 0) return {};
    events_.clear();
    world_.begin_batch();
    for (std::size_t i = 0; i < batch_ && left_ > 0; ++i, --left_) {
      events_.push_back(StepsDone{{0}, step_++, 1, 1'000'000});
      world_.apply(events_.back(), now_ += 1'000'000);
    }
    return toy::seen_of(world_, events_, samples_, now_, sequence_++);
  }
  void apply(const DecisionList&) override {}

 private:
  World world_;
  NoSamples samples_;
  std::uint64_t left_, sequence_ = 0;
  std::size_t batch_;
  Step step_ = 0;
  Nanos now_ = 0;
  std::vector<Event> events_;
};

/// Jobs that are submitted one by one, assigned through the gate, started and over, as in a replay
/// of a job trace.
class Jobs : public Backend, private Carrier {
 public:
  Jobs(const Cluster& cluster, std::uint32_t jobs) : world_(cluster), jobs_(jobs) {}
  Capabilities capabilities() const override { return kAll; }
  const Cluster& cluster() const override { return world_.cluster(); }
  void begin(const Needs&) override {}
  std::optional<Observation> next() override {
    if (over_ == jobs_) return {};
    now_ += 1'000'000;
    if (submitted_ < jobs_) emit_event(JobSubmitted{toy::plain(submitted_++, 4)});
    while (started_ > over_ + (submitted_ < jobs_ ? kAtOnce : 0)) emit_event(JobDone{{over_++}});
    events_.swap(news_);
    news_.clear();
    return toy::seen_of(world_, events_, samples_, now_, sequence_++);
  }
  void apply(const DecisionList& decisions) override {
    world_.begin_batch();
    gate_.accept_decisions(decisions, now_);
  }

 private:
  static constexpr Capabilities kAll{Kinds<Action>::all(), Kinds<Setting>::all()};
  static constexpr std::uint32_t kAtOnce = 2;
  std::string refusal(const Decision&) const override { return {}; }
  bool is_step_open(JobId) const override { return false; }
  void emit_event(Event event) override {
    world_.apply(event, now_);
    news_.push_back(std::move(event));
  }
  void carry_out(const Decision& decision) override {
    const auto& assign = std::get<Assign>(decision.what);
    ++started_;
    emit_event(JobStarted{assign.job, {1}, 0, {assign.gpus, assign.layout}});
  }

  World world_;
  DecisionGate gate_{world_, kAll, *this};
  NoSamples samples_;
  std::uint32_t jobs_, submitted_ = 0, started_ = 0, over_ = 0;
  std::uint64_t sequence_ = 0;
  Nanos now_ = 0;
  std::vector<Event> events_, news_;
};

/// Puts each new job where the one four before it was.
class RoundRobin : public Policy {
 public:
  Needs needs() const override { return {Kinds<Action>::of<Assign>(), {}, 0}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    for (const Event& event : seen.events) {
      const auto* submitted = std::get_if<JobSubmitted>(&event);
      if (submitted == nullptr) continue;
      const std::uint32_t id = submitted->job.id.value;
      decisions.add(Assign{{id}, toy::gpus(id % 4 * 4, 4), submitted->job.layout}, "next");
    }
    decisions.rest();
  }
};

void drive_recorded(benchmark::State& state, Policy& policy, Backend& backend, bool hash) {
  Recorder recorder(backend, policy, LogHeader{}, {.hash = hash});
  Rng rng(1);
  Context context{rng, {}};
  drive(policy, recorder, context);
  recorder.finish_log();
  state.SetItemsProcessed(state.items_processed() + static_cast<std::int64_t>(recorder.events()));
}

/// Arguments: events at a time; whether hashes are made.
void seam_steps(benchmark::State& state) {
  const Cluster cluster = toy::cluster(4, 4);
  for (auto _ : state) {
    StaticPolicy policy;
    Steps backend(cluster, 100'000, static_cast<std::size_t>(state.range(0)));
    drive_recorded(state, policy, backend, state.range(1) != 0);
  }
}
BENCHMARK(seam_steps)->Args({1, 0})->Args({64, 0})->Args({1, 1})->Unit(benchmark::kMillisecond);

void seam_jobs(benchmark::State& state) {
  const Cluster cluster = toy::cluster(4, 4);
  for (auto _ : state) {
    RoundRobin policy;
    Jobs backend(cluster, 50'000);
    drive_recorded(state, policy, backend, state.range(0) != 0);
  }
}
BENCHMARK(seam_jobs)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

JobSpec large(std::uint32_t id = 0) {
  JobSpec spec = toy::job(id, 4096);
  spec.gpus = kMany;
  spec.layout = {.tensor = 8, .pipeline = 16, .data = kMany / 128};
  spec.max_micro_batches = 16;
  return spec;
}

/// A rank of very many is lost, and the job starts again where it stands.
void seam_loss(benchmark::State& state) {
  const Cluster cluster = toy::cluster(kMany / 8, 8);
  World world(cluster);
  toy::run_on(world, large());
  std::uint64_t epoch = 1;
  for (auto _ : state) {
    const std::uint32_t rank = static_cast<std::uint32_t>(epoch * 7919 % kMany);
    world.apply(RanksLost{{0}, {{rank}}, {++epoch}}, 0);
    world.apply(JobStarted{{0}, {++epoch}, 0, {toy::gpus(0, kMany), large().layout}}, 0);
  }
}
BENCHMARK(seam_loss)->Unit(benchmark::kMicrosecond);

/// Looking at an assignment of very many GPUs in runs of so many.
void seam_assign(benchmark::State& state) {
  const Cluster cluster = toy::cluster(kMany / 8, 8);
  World world(cluster);
  world.apply(JobSubmitted{large()}, 0);
  world.apply(PartChanged{{PartKind::nic, 1}, {.health = Health::lost}}, 0);
  const auto size = static_cast<std::uint32_t>(state.range(0));
  Assign assign{.job = {0}, .layout = large().layout};
  for (std::uint32_t odd : {0u, 1u}) {
    for (std::uint32_t run = odd; run * size < kMany; run += 2) {
      assign.gpus.append_run({run * size, size});
    }
  }
  const Decision decision{.what = assign};
  for (auto _ : state) {
    const std::string why = world.objection(decision);
    if (!why.empty()) state.SkipWithError(why.c_str());
  }
}
BENCHMARK(seam_assign)->Arg(kMany)->Arg(8)->Unit(benchmark::kMicrosecond);

/// The same where the job stands in runs of eight, and two spares take turns.
void seam_spare(benchmark::State& state) {
  const Cluster cluster = toy::cluster(kMany / 8 + 1, 8);
  World world(cluster);
  std::vector<GpuRuns> places(2);
  for (std::uint32_t spare : {0u, 1u}) {
    for (std::uint32_t odd : {0u, 1u}) {
      for (std::uint32_t run = odd; run * 8 < kMany; run += 2) {
        places[spare].append_run({run * 8 + (run == 0 ? 1 : 0), run == 0 ? 7u : 8u});
      }
    }
    places[spare].push_back({kMany + spare});
  }
  world.apply(JobSubmitted{large()}, 0);
  world.apply(JobStarted{{0}, {1}, 0, {places[1], large().layout}}, 0);
  std::uint64_t epoch = 1;
  for (auto _ : state) {
    const GpuRuns& next = places[epoch / 2 % 2];
    world.apply(RanksLost{{0}, {{kMany - 1}}, {++epoch}}, 0);
    world.apply(JobStarted{{0}, {++epoch}, 0, {next, large().layout}}, 0);
  }
}
BENCHMARK(seam_spare)->Unit(benchmark::kMicrosecond);

/// A job of very many GPUs is assigned, starts and is over.
void seam_large_job(benchmark::State& state) {
  const Cluster cluster = toy::cluster(kMany / 8, 8);
  World world(cluster);
  std::uint32_t id = 0;
  for (auto _ : state) {
    world.begin_batch();
    world.apply(JobSubmitted{large(id)}, 0);
    world.announce_decision({.id = id, .what = Assign{{id}, toy::gpus(0, kMany), large().layout}});
    world.apply(Decided{id, Outcome::applied, ""}, 0);
    world.apply(toy::started(world, id, {toy::gpus(0, kMany), large().layout}), 0);
    world.apply(JobDone{{id++}}, 0);
  }
}
BENCHMARK(seam_large_job)->Unit(benchmark::kMicrosecond);

/// A million jobs pass through; measures the memory of the world when four of them are left.
void seam_million(benchmark::State& state) {
  constexpr std::uint32_t kJobs = 1'000'000, kLeft = 4;
  const Cluster cluster = toy::cluster(4, 4);
  for (auto _ : state) {
    const std::size_t before = mallinfo2().uordblks;
    World world(cluster);
    for (std::uint32_t id = 0; id < kJobs; ++id) {
      world.begin_batch();
      if (id >= kLeft) world.apply(JobDone{{id - kLeft}}, id);
      toy::run_on(world, toy::plain(id, 4), id % kLeft * 4, id);
    }
    state.counters["bytes"] = static_cast<double>(mallinfo2().uordblks - before);
  }
  state.SetItemsProcessed(state.iterations() * std::int64_t{3} * kJobs);
}
BENCHMARK(seam_million)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace orrery
