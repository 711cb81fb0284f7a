#include "policies/run/threaded_policy.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "policies/handover/fallback.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/samples_book.hpp"

namespace orrery {
namespace {

std::atomic<bool> abandoned_threads = false;

}  // namespace

/// Everything that the thread uses; the last of both owners frees it. `mutex` guards `stage` and
/// `wish`. All other members belong to the policy's thread from `asked` to `answered`, and to the
/// run's thread otherwise; the telemetry passes from one to the other with `wishing` and `granted`.
struct ThreadedPolicy::Shared {
  /// Stage of the current call. withdrawn: the run does not wait any more.
  enum class Stage : std::uint8_t { idle, asked, wishing, granted, answered, withdrawn };

  /// Telemetry that the run's thread reads on request.
  class Fetched : public SamplesBook {
   public:
    explicit Fetched(Shared& shared) : shared_(shared) {}

   private:
    void fetch_samples(const SamplesRead& wish) override { add(shared_.request_samples(wish)); }
    Shared& shared_;
  };

  Shared(std::shared_ptr<PolicyStack> policies, std::shared_ptr<const Cluster> hardware)
      : stack(std::move(policies)), cluster(std::move(hardware)), world(*cluster), samples(*this) {}

  /// Body of the thread.
  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stage == Stage::asked || stage == Stage::withdrawn; });
      if (stage == Stage::withdrawn) return;
      lock.unlock();
      answer();
      lock.lock();
      if (stage == Stage::withdrawn) return;
      stage = Stage::answered;
      changed.notify_all();
    }
  }
  void answer() {
    try {
      const Observation seen{.now = now,
                             .sequence = sequence,
                             .events = events,
                             .cluster = *cluster,
                             .state = world.state(),
                             .jobs = world.jobs(),
                             .samples = samples,
                             .resting = resting};
      Context context{rng, offered};
      stack->observe(context, seen, decisions);
      has_changed = stack->has_changed();
      if (has_changed || state.empty()) {
        state.clear();
        stack->save(state);
      }
    } catch (...) {
      thrown = std::current_exception();
    }
  }
  SamplesRead request_samples(const SamplesRead& read) {
    std::unique_lock lock(mutex);
    if (stage != Stage::withdrawn) {
      wish = read;
      stage = Stage::wishing;
      changed.notify_all();
    }
    changed.wait(lock, [this] { return stage != Stage::wishing; });
    if (stage == Stage::withdrawn) throw PolicyGivenUp("the run waits no longer", true);
    stage = Stage::asked;
    return std::exchange(granted, {});
  }

  const std::shared_ptr<PolicyStack> stack;
  const std::shared_ptr<const Cluster> cluster;
  World world;
  Rng rng{0};
  Capabilities offered;
  // Input and output of the current call.
  Nanos now = 0;
  std::uint64_t sequence = 0;
  std::vector<Event> events;
  bool resting = false, has_changed = true;
  Fetched samples;
  DecisionList decisions;
  Archive state;
  std::exception_ptr thrown;

  std::mutex mutex;
  std::condition_variable changed;
  Stage stage = Stage::idle;
  SamplesRead wish, granted;
  std::thread thread;  ///< used by the run's thread only; starts with the first call
};

ThreadedPolicy::ThreadedPolicy(std::shared_ptr<PolicyStack> stack,
                               std::shared_ptr<const Cluster> cluster, PolicyMeter& meter)
    : shared_(std::make_shared<Shared>(std::move(stack), std::move(cluster))), meter_(meter) {}

ThreadedPolicy::~ThreadedPolicy() {
  if (!shared_->thread.joinable()) return;
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->stage = Shared::Stage::withdrawn;
    shared_->changed.notify_all();
  }
  shared_->thread.join();
}

Needs ThreadedPolicy::needs() const { return shared_->stack->needs(); }

void ThreadedPolicy::start(Context& context, const Cluster& /*cluster*/,
                           const google::protobuf::Message* parameters) {
  shared_->offered = context.backend;
  shared_->stack->start(context, *shared_->cluster, parameters);
}

void ThreadedPolicy::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  Shared& shared = *shared_;
  shared.offered = context.backend;
  shared.now = seen.now;
  shared.sequence = seen.sequence;
  shared.events.assign(seen.events.begin(), seen.events.end());
  shared.resting = seen.resting;
  shared.decisions = DecisionList(decisions.next());
  shared.samples.clear();
  shared.thrown = nullptr;
  shared.world.begin_batch();
  for (const Event& event : seen.events) shared.world.apply(event, seen.now);
  if (!shared.thread.joinable()) {
    shared.thread = std::thread([kept = shared_] { kept->serve(); });
  }
  std::unique_lock lock(shared.mutex);
  shared.stage = Shared::Stage::asked;
  shared.changed.notify_all();
  const auto is_answered = [&](int wait_ms) {
    const auto done = [&] {
      if (shared.stage == Shared::Stage::wishing) {
        shared.granted = read_samples(seen.samples, shared.wish);
        shared.stage = Shared::Stage::granted;
        shared.changed.notify_all();
      }
      return shared.stage == Shared::Stage::answered;
    };
    if (wait_ms >= 0) {
      shared.changed.wait_for(lock, std::chrono::milliseconds(wait_ms), done);
    } else {
      shared.changed.wait(lock, done);
    }
    return shared.stage == Shared::Stage::answered;
  };
  try {
    meter_.await_answer(is_answered);
  } catch (...) {  // the call was given up, or the run failed meanwhile
    shared.stage = Shared::Stage::withdrawn;
    shared.changed.notify_all();
    shared.thread.detach();
    abandoned_threads = true;
    throw;
  }
  shared.stage = Shared::Stage::idle;
  lock.unlock();
  if (shared.thrown != nullptr) std::rethrow_exception(shared.thrown);
  for (const Decision& decision : shared.decisions.items()) {
    shared.world.announce_decision(decision);
  }
  decisions = std::move(shared.decisions);
}

void ThreadedPolicy::save(Archive& archive) const {
  if (shared_->state.empty()) return shared_->stack->save(archive);
  archive = shared_->state;
}

void ThreadedPolicy::load(const Archive& archive) {
  shared_->stack->load(archive);
  shared_->state.clear();
}

bool ThreadedPolicy::has_changed() const { return shared_->has_changed; }

void ThreadedPolicy::set_world(const World& world) { shared_->world = world; }

bool ThreadedPolicy::has_abandoned_threads() { return abandoned_threads; }

}  // namespace orrery
