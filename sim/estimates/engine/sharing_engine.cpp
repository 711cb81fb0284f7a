#include "sim/estimates/engine/sharing_engine.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/tables/huge_pages.hpp"
#include "sim/estimates/engine/activities.hpp"
#include "sim/estimates/engine/calendar.hpp"
#include "sim/estimates/engine/event_queue.hpp"

namespace orrery::estimates {
namespace {

constexpr double kSameInstant = 1e-9;  // seconds: the precision of the models of sharing
constexpr std::uint32_t kNobody = Activities::kNone;

}  // namespace

struct SharingEngine::State : LinkShares::Listener {
  /// End of an activity, as reckoned at its `turn`. Ends of an instant need no order, see tell().
  struct End {
    double at;
    std::uint32_t place, turn;
    bool is_before(const End& other) const {
      return std::bit_cast<std::uint64_t>(at) < std::bit_cast<std::uint64_t>(other.at);
    }
  };
  /// End of the activity with a number.
  struct Ended {
    std::uint64_t number;
    std::uint32_t place, turn;
  };
  struct Host {
    double speed = 1;
    std::uint32_t busy = kNobody;  ///< place of its current activity
  };
  struct Link {
    double bandwidth = 0;  ///< units per second
    std::uint32_t up : 1 = 1;
    std::uint32_t flows : 31 = 0;
    std::uint32_t alone = kNobody;  ///< the place of its only flow, which meets nobody elsewhere
  };

  const std::unique_ptr<LinkShares> shares;
  HugeVector<Host> hosts;
  HugeVector<Link> links;
  HugeVector<double> told;  ///< bandwidth of each link as the model of sharing has it

  Activities activities;
  SlotCalendar<std::function<void()>> timers;
  EventQueue<End> ends;
  std::vector<Ended> ready;  ///< activities that ended at this instant
  std::vector<Ended> batch;  ///< being told
  std::vector<End> aside;    ///< ends of the parts that have paused
  bool is_paused = false;    ///< the present part pauses at this instant
  std::uint64_t events = 0, shared_flows = 0;

  State(std::uint32_t host_count, std::uint32_t link_count, std::unique_ptr<LinkShares> model);

  double next_end() const;
  void schedule(std::uint32_t place);
  void fail(std::uint32_t place);
  bool enter(std::uint32_t place);
  void leave(std::uint32_t place);
  double rate_alone(const FlowLinks& over) const;
  void share(std::uint32_t place);

  void on_time() override;
  void on_flow_end(std::uint32_t place) override;
  void on_wake() override;
  bool tell();
  void tell_end(const Ended& end);
  void set_part_aside();
  void take_next_end(std::vector<Ended>& into);
  void give_up(std::uint32_t place);
};

SharingEngine::State::State(std::uint32_t host_count, std::uint32_t link_count,
                            std::unique_ptr<LinkShares> model)
    : shares(std::move(model)), hosts(host_count), links(link_count), told(link_count) {
  shares->set_listener(*this);
}

// ---- ends -------------------------------------------------------------------------------------

/// Its end at its present rate, if nothing comes in between.
void SharingEngine::State::schedule(std::uint32_t place) {
  Activities::Activity& activity = activities[place];
  double at = shares->now();
  if (activity.left > 0) at += activity.left / activities.rate_of(place);
  ends.add_entry({at, place, ++activity.turn});
  shares->stop_at(at);
}

void SharingEngine::State::fail(std::uint32_t place) {
  give_up(place);
  activities.flow(place).failed = true;
  ends.add_entry({shares->now(), place, ++activities[place].turn});
  shares->wake_now();
}

/// Takes the next end out of the calendar. One that has been reckoned anew since counts, too: the
/// clock has stopped for it.
void SharingEngine::State::take_next_end(std::vector<Ended>& into) {
  const End end = ends.pop_entry();
  if (!ends.empty()) activities.prefetch(ends.front().place);
  into.push_back({activities[end.place].number, end.place, end.turn});
}

double SharingEngine::State::next_end() const {
  return ends.empty() ? std::numeric_limits<double>::infinity() : ends.front().at;
}

/// Takes a flow that has not ended back from the model of sharing.
void SharingEngine::State::give_up(std::uint32_t place) {
  if (std::exchange(activities.flow(place).shared, false)) shares->cancel_flow(place);
}

// ---- flows ------------------------------------------------------------------------------------

/// Returns the rate of a flow that has its links to itself.
double SharingEngine::State::rate_alone(const FlowLinks& over) const {
  double least = std::numeric_limits<double>::infinity();
  over.for_each_link([&](std::uint32_t link, std::size_t times) {
    least = std::min(least, links[link].bandwidth / static_cast<double>(times));
  });
  return least;
}

/// Counts a flow on its links. Returns true if no other flow uses them; otherwise the flow that was
/// alone on one of them shares it from now on.
bool SharingEngine::State::enter(std::uint32_t place) {
  bool alone = true;
  const FlowLinks& over = activities.flow(place).links;
  over.for_each_link([&](std::uint32_t link, std::size_t) {
    if (links[link].flows++ == 0) return;
    alone = false;
    if (links[link].alone != kNobody) share(links[link].alone);
  });
  if (!alone) return false;
  for (const std::uint32_t link : over.all()) links[link].alone = place;
  return true;
}

void SharingEngine::State::leave(std::uint32_t place) {
  activities.flow(place).links.for_each_link([this](std::uint32_t link, std::size_t) {
    --links[link].flows;
    links[link].alone = kNobody;
  });
}

/// Hands a flow to the model of sharing, which knows of those that meet others alone.
void SharingEngine::State::share(std::uint32_t place) {
  Activities::Flow& flow = activities.flow(place);
  const double left = activities.left_of(place, shares->now());
  const std::span<const std::uint32_t> over = flow.links.all();
  for (const std::uint32_t link : over) links[link].alone = kNobody;
  if (left < 1) return;  // ends at this instant
  for (const std::uint32_t link : over) {
    const double bandwidth = links[link].bandwidth;
    if (std::exchange(told[link], bandwidth) != bandwidth) shares->set_bandwidth(link, bandwidth);
  }
  ++shared_flows;
  ++activities[place].turn;
  flow.shared = true;
  shares->start_flow(place, over, std::floor(left + 0.5));
}

void SharingEngine::State::on_flow_end(std::uint32_t place) {
  const Activities::Activity& activity = activities[place];
  ready.push_back({activity.number, place, activity.turn});
  shares->wake_now();
}

// ---- time -------------------------------------------------------------------------------------

/// Ends the activities that are due within the precision, as the models of sharing do; activities
/// that start now belong to an instant of their own.
void SharingEngine::State::on_time() {
  while (next_end() - shares->now() < kSameInstant) take_next_end(ready);
  if (timers.next() <= shares->now() || !ready.empty()) shares->wake_now();
}

/// Processes an instant: first expired delays, then ended activities, both in the order of
/// starting, until no more follow.
void SharingEngine::State::on_wake() {
  shares->pass_stops(kSameInstant);
  do {
    while (timers.next() <= shares->now() && !is_paused) {
      ++events;
      timers.pop_entry()();
    }
  } while (!is_paused && tell());
  if (is_paused) return set_part_aside();
  const double next = std::min(timers.next(), next_end());
  if (std::isfinite(next)) shares->stop_at(next);
}

/// False if nothing has ended.
bool SharingEngine::State::tell() {
  batch.swap(ready);
  while (next_end() <= shares->now()) take_next_end(batch);
  if (batch.empty()) return false;
  std::sort(batch.begin(), batch.end(),
            [](const Ended& a, const Ended& b) { return a.number < b.number; });
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (is_paused) {  // the rest ends at this instant, when the part continues
      ready.insert(ready.end(), batch.begin() + static_cast<std::ptrdiff_t>(i), batch.end());
      break;
    }
    tell_end(batch[i]);
  }
  batch.clear();
  return true;
}

void SharingEngine::State::tell_end(const Ended& end) {
  const auto& [number, place, turn] = end;
  Activities::Activity& activity = activities[place];
  if (number == 0 || activity.number != number || activity.turn != turn) return;
  ++events;
  bool ok = true;
  if (activity.host != kNobody) {
    hosts[activity.host].busy = kNobody;
  } else {
    ok = !activities.flow(place).failed;
    leave(place);
  }
  const Done done = std::move(activity.done);
  activities.end_activity(place);
  if (done) done(ok);
}

// ---- parts ------------------------------------------------------------------------------------

/// Keeps all that is pending for run(). The flows that end at this instant are reported after this
/// call: then it is called again.
void SharingEngine::State::set_part_aside() {
  timers.set_aside();
  while (!ends.empty()) aside.push_back(ends.pop_entry());
  for (const Ended& end : ready) aside.push_back({shares->now(), end.place, end.turn});
  ready.clear();
  shares->set_flows_aside();
}

// ---- the engine ---------------------------------------------------------------------------------

SharingEngine::SharingEngine(std::uint32_t hosts, std::uint32_t links,
                             std::unique_ptr<LinkShares> shares)
    : state_(std::make_unique<State>(hosts, links, std::move(shares))) {}

SharingEngine::~SharingEngine() = default;

double SharingEngine::now() const { return state_->shares->now(); }
std::uint32_t SharingEngine::hosts() const {
  return static_cast<std::uint32_t>(state_->hosts.size());
}
std::uint32_t SharingEngine::links() const {
  return static_cast<std::uint32_t>(state_->links.size());
}
std::uint64_t SharingEngine::events() const { return state_->events; }
std::uint64_t SharingEngine::shared_flows() const { return state_->shared_flows; }

void SharingEngine::start_timer(double delay, std::function<void()> what, const MemoryHint& hint) {
  const double at = now() + delay;
  state_->timers.add_entry(at, std::move(what), hint);
  state_->shares->stop_at(at);
}

Engine::Handle SharingEngine::start_computation(std::uint32_t host, double work, Done done) {
  State& state = *state_;
  State::Host& on = state.hosts[host];
  ensure(on.busy == kNobody, "a host computes one thing at a time");
  const std::uint32_t place = state.activities.add_activity(std::move(done), now());
  Activities::Activity& activity = state.activities[place];
  activity.host = host;
  activity.left = std::max(work, 0.0) * Activities::kUnitsOfWork / on.speed;
  on.busy = place;
  state.schedule(place);
  return activity.number;
}

Engine::Handle SharingEngine::flow(std::span<const std::uint32_t> links, double bytes, Done done) {
  State& state = *state_;
  for (const std::uint32_t link : links) __builtin_prefetch(&state.links[link]);
  const std::uint32_t place = state.activities.add_activity(std::move(done), now());
  Activities::Activity& activity = state.activities[place];
  const std::uint64_t number = activity.number;
  const bool up = std::all_of(links.begin(), links.end(),
                              [&](std::uint32_t link) { return state.links[link].up; });
  const double units = bytes * kUnitsOfByte;
  activity.left = links.empty() || units < 1 ? 0 : std::floor(units + 0.5);
  if (!up) {
    state.fail(place);
  } else if (activity.left == 0) {
    state.schedule(place);
  } else {
    Activities::Flow& flow = state.activities.flow(place);
    flow.links.set_links(links);
    flow.rate = state.rate_alone(flow.links);
    if (state.enter(place)) {
      state.schedule(place);
    } else {
      state.share(place);
    }
  }
  return number;
}

/// Units of work are those of the present speed.
void SharingEngine::set_speed(std::uint32_t host, double speed) {
  State& state = *state_;
  const std::uint32_t busy = state.hosts[host].busy;
  const double before = std::exchange(state.hosts[host].speed, speed);
  if (before == speed || busy == kNobody) return;
  Activities::Activity& activity = state.activities[busy];
  const double left = state.activities.left_of(busy, now());
  if (left <= kSameInstant * Activities::kUnitsOfWork) return;  // ends at this instant
  activity.left = left * before / speed;
  activity.since = now();
  state.schedule(busy);
}

void SharingEngine::set_bandwidth(std::uint32_t link, double bandwidth) {
  State& state = *state_;
  State::Link& at = state.links[link];
  if (std::exchange(at.bandwidth, bandwidth * kUnitsOfByte) == at.bandwidth || at.flows == 0) {
    return;
  }
  if (at.alone == kNobody) {
    state.told[link] = at.bandwidth;
    state.shares->set_bandwidth(link, at.bandwidth);
    return;
  }
  Activities::Activity& activity = state.activities[at.alone];
  activity.left = std::max(0.0, state.activities.left_of(at.alone, now()));
  activity.since = now();
  Activities::Flow& flow = state.activities.flow(at.alone);
  flow.rate = state.rate_alone(flow.links);
  state.schedule(at.alone);
}

/// Stores the state of a link: the links of the model of sharing are always up.
void SharingEngine::set_link_up(std::uint32_t link, bool up) {
  State& state = *state_;
  state.links[link].up = up;
  if (up || state.links[link].flows == 0) return;
  for (const std::uint32_t place : state.activities.flows_over(link)) state.fail(place);
}

void SharingEngine::run() { state_->shares->run(); }

bool SharingEngine::can_run_parts() const { return state_->shares->can_rewind(); }

void SharingEngine::run_parts(std::uint32_t parts,
                              const std::function<void(std::uint32_t)>& begin) {
  State& state = *state_;
  const double start = now();
  for (std::uint32_t part = 0; part < parts; ++part) {
    state.shares->set_clock(start);
    state.is_paused = false;
    after(0, [&begin, part] { begin(part); });
    state.shares->run();
  }
  state.is_paused = false;
  state.shares->set_clock(start);
  state.shares->continue_flows();
  state.timers.continue_items();
  for (const State::End& end : state.aside) state.ends.add_entry(end);
  state.aside.clear();
  const double next = std::min(state.timers.next(), state.next_end());
  if (std::isfinite(next)) state.shares->stop_at(next);
}

void SharingEngine::pause_part() { state_->is_paused = true; }

void SharingEngine::cancel_all() {
  State& state = *state_;
  state.shares->clear_stops();
  state.timers.clear();
  state.ends.clear();
  state.ready.clear();
  state.aside.clear();
  for (std::uint32_t place = 0; place < state.activities.size(); ++place) {
    state.give_up(place);
    const std::uint32_t host = state.activities[place].host;
    if (host != kNobody) state.hosts[host].busy = kNobody;
  }
  state.activities.clear();
  for (State::Link& link : state.links) {
    link.flows = 0;
    link.alone = kNobody;
  }
}

}  // namespace orrery::estimates
