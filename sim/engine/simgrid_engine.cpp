#include "sim/engine/simgrid_engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "sim/engine/simgrid_compat.hpp"
#include "sim/engine/simgrid_platform.hpp"
#include "sim/engine/simgrid_stops.hpp"
#include "sim/estimates/engine/calendar.hpp"

namespace orrery::sim {
namespace {

namespace s4u = simgrid::s4u;

// SimGrid rounds small numbers away; nanoseconds of work and parts of a byte keep clear of that.
constexpr double kUnitsOfWork = 1e9;
constexpr double kUnitsOfByte = 256;
constexpr double kSameInstant = 1e-9;  // seconds: the precision given to SimGrid
constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

}  // namespace

struct SimGridEngine::State {
  struct Activity {
    Done done;
    std::uint64_t number = 0;          ///< order of starting; 0: not active
    std::uint32_t turn = 0;            ///< tells its present end from those reckoned before
    std::uint32_t host = kNobody;      ///< host of a computation
    std::vector<std::uint32_t> links;  ///< links of a flow, each as often as it counts
    double left = 0, since = 0;        ///< units at the instant `since`
    double rate = 0;                   ///< bytes or work per second
    s4u::CommPtr shared;               ///< flow that meets others: SimGrid determines its end
  };
  struct End {
    std::uint64_t number;
    std::uint32_t place, turn;
    bool ok;
  };
  struct Host {
    double speed = 1;
    std::uint32_t busy = kNobody;  ///< index of the host's current activity
  };
  struct Link {
    double bandwidth = 0;  ///< units per second ...
    double told = 0;       ///< ... and as SimGrid has it
    bool up = true;
    std::uint32_t flows = 0;
    std::uint32_t alone = kNobody;  ///< the place of its only flow, which meets nobody elsewhere
  };

  SimGridPlatform platform;
  std::vector<Host> hosts;
  std::vector<Link> links;

  std::vector<Activity> activities;
  std::vector<std::uint32_t> free_places;
  estimates::Calendar<std::function<void()>> timers;
  estimates::Calendar<End> ends;
  std::vector<End> ready;              ///< activities that ended at this instant
  std::vector<End> batch;              ///< being told
  std::vector<s4u::CommPtr> given_up;  ///< cancelled: SimGrid still looks at them
  SimGridStops stops{[this] { wake(); }};
  std::uint64_t started = 0;
  std::uint64_t events = 0, shared_flows = 0;

  State(std::uint32_t host_count, std::uint32_t link_count);

  std::uint32_t place(Done done);
  void schedule(std::uint32_t place);
  void fail(std::uint32_t place);
  bool enter(std::uint32_t place);
  void leave(const Activity& activity);
  double rate_alone(const std::vector<std::uint32_t>& over) const;
  void share(std::uint32_t place);
  std::vector<std::uint32_t> flows_over(std::uint32_t link) const;

  void ended(const s4u::Activity& activity);
  void time_passed();
  void wake();
  bool tell();
  bool under_way(const End& end) const;
  void give_up(Activity& activity);
  void forget(Activity& activity);
};

SimGridEngine::State::State(std::uint32_t host_count, std::uint32_t link_count)
    : platform(link_count, kUnitsOfByte), hosts(host_count), links(link_count) {
  simgrid_compat::on_completion([this](const s4u::Activity& activity) { ended(activity); });
  s4u::Engine::on_time_advance_cb([this](double) { time_passed(); });
}

// ---- what is under way ------------------------------------------------------------------------

std::uint32_t SimGridEngine::State::place(Done done) {
  if (free_places.empty()) {
    free_places.push_back(static_cast<std::uint32_t>(activities.size()));
    activities.emplace_back();
  }
  const std::uint32_t place = free_places.back();
  free_places.pop_back();
  Activity& activity = activities[place];
  activity.done = std::move(done);
  activity.number = ++started;
  activity.since = stops.now();
  return place;
}

/// Its end at its present rate, if nothing comes in between.
void SimGridEngine::State::schedule(std::uint32_t place) {
  Activity& activity = activities[place];
  const double at = activity.left > 0 ? stops.now() + activity.left / activity.rate : stops.now();
  ends.add_entry(at, {activity.number, place, ++activity.turn, true});
  stops.at(at);
}

void SimGridEngine::State::fail(std::uint32_t place) {
  Activity& activity = activities[place];
  give_up(activity);
  ends.add_entry(stops.now(), {activity.number, place, ++activity.turn, false});
  stops.wake_now();
}

bool SimGridEngine::State::under_way(const End& end) const {
  const Activity& activity = activities[end.place];
  return activity.number == end.number && activity.turn == end.turn;
}

/// Takes a flow that has not ended back from SimGrid.
void SimGridEngine::State::give_up(Activity& activity) {
  if (activity.shared == nullptr) return;
  given_up.push_back(std::exchange(activity.shared, nullptr));
  given_up.back()->set_data(nullptr);
  given_up.back()->cancel();
}

/// Its place is free from now on.
void SimGridEngine::State::forget(Activity& activity) {
  activity.done = nullptr;
  activity.number = 0;
  activity.host = kNobody;
  activity.links.clear();
  activity.shared = nullptr;
}

// ---- flows ------------------------------------------------------------------------------------

/// Returns the rate of a flow that has its links to itself.
double SimGridEngine::State::rate_alone(const std::vector<std::uint32_t>& over) const {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < over.size();) {
    std::size_t next = i + 1;  // the same link many times over comes in a row
    while (next < over.size() && over[next] == over[i]) ++next;
    least = std::min(least, links[over[i]].bandwidth / static_cast<double>(next - i));
    i = next;
  }
  return least;
}

/// Counts a flow on its links; true if it has them to itself. Whoever had one of them until now
/// shares it from now on.
bool SimGridEngine::State::enter(std::uint32_t place) {
  bool alone = true;
  const std::size_t size = activities[place].links.size();
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t link = activities[place].links[i];
    if (i > 0 && activities[place].links[i - 1] == link) continue;
    if (links[link].flows++ == 0) continue;
    alone = false;
    if (links[link].alone != kNobody) share(links[link].alone);
  }
  if (!alone) return false;
  for (const std::uint32_t link : activities[place].links) links[link].alone = place;
  return true;
}

void SimGridEngine::State::leave(const Activity& activity) {
  for (std::size_t i = 0; i < activity.links.size(); ++i) {
    const std::uint32_t link = activity.links[i];
    if (i > 0 && activity.links[i - 1] == link) continue;
    --links[link].flows;
    links[link].alone = kNobody;
  }
}

/// Hands a flow to SimGrid, which knows of those that meet others alone.
void SimGridEngine::State::share(std::uint32_t place) {
  Activity& activity = activities[place];
  const double left = activity.left - (stops.now() - activity.since) * activity.rate;
  for (const std::uint32_t link : activity.links) links[link].alone = kNobody;
  if (left < 1) return;  // ends at this instant
  for (const std::uint32_t link : activity.links) {
    Link& at = links[link];
    if (std::exchange(at.told, at.bandwidth) != at.bandwidth) {
      platform.link(link)->set_bandwidth(at.bandwidth);
    }
  }
  ++shared_flows;
  ++activity.turn;
  activity.shared = platform.flow(activity.links);
  activity.shared->set_payload_size(static_cast<std::uint64_t>(left + 0.5));
  activity.shared->set_data(reinterpret_cast<void*>(std::uintptr_t{place} + 1));
  activity.shared->start();
}

std::vector<std::uint32_t> SimGridEngine::State::flows_over(std::uint32_t link) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t place = 0; place < activities.size(); ++place) {
    const std::vector<std::uint32_t>& over = activities[place].links;
    if (std::find(over.begin(), over.end(), link) != over.end()) found.push_back(place);
  }
  return found;
}

/// SimGrid has ended it, or has been told to forget it.
void SimGridEngine::State::ended(const s4u::Activity& activity) {
  const auto number = reinterpret_cast<std::uintptr_t>(activity.get_data<void>());
  if (number == 0) return;
  const auto place = static_cast<std::uint32_t>(number - 1);
  const Activity& ours = activities[place];
  if (ours.shared.get() != &activity) return;
  ready.push_back(
      {ours.number, place, ours.turn, activity.get_state() == s4u::Activity::State::FINISHED});
  stops.wake_now();
}

// ---- time -------------------------------------------------------------------------------------

/// Ends the activities that are due within the precision, as SimGrid's models do; activities that
/// start now belong to an instant of their own.
void SimGridEngine::State::time_passed() {
  while (ends.next() - stops.now() < kSameInstant) ready.push_back(ends.pop_entry());
  if (timers.next() <= stops.now() || !ready.empty()) stops.wake_now();
}

/// Processes an instant: first expired delays, then ended activities, both in the order of
/// starting, until no more follow.
void SimGridEngine::State::wake() {
  stops.advance_past_now(kSameInstant);
  do {
    while (timers.next() <= stops.now()) {
      ++events;
      timers.pop_entry()();
    }
  } while (tell());
  const double next = std::min(timers.next(), ends.next());
  if (std::isfinite(next)) stops.at(next);
}

/// False if nothing has ended.
bool SimGridEngine::State::tell() {
  batch.swap(ready);
  while (ends.next() <= stops.now()) batch.push_back(ends.pop_entry());
  if (batch.empty()) return false;
  std::sort(batch.begin(), batch.end(),
            [](const End& a, const End& b) { return a.number < b.number; });
  for (const End& end : batch) {
    if (!under_way(end)) continue;
    Activity& activity = activities[end.place];
    ++events;
    leave(activity);
    if (activity.host != kNobody) hosts[activity.host].busy = kNobody;
    const Done done = std::move(activity.done);
    forget(activity);
    free_places.push_back(end.place);
    if (done) done(end.ok);
  }
  batch.clear();
  return true;
}

// ---- the engine ---------------------------------------------------------------------------------

SimGridEngine::SimGridEngine(std::uint32_t hosts, std::uint32_t links) {
  ensure(!s4u::Engine::is_initialized(), "one simulation engine per process");
  state_ = std::make_unique<State>(hosts, links);
}

SimGridEngine::~SimGridEngine() = default;

double SimGridEngine::now() const { return SimGridStops::now(); }
std::uint32_t SimGridEngine::hosts() const {
  return static_cast<std::uint32_t>(state_->hosts.size());
}
std::uint32_t SimGridEngine::links() const {
  return static_cast<std::uint32_t>(state_->links.size());
}
std::uint64_t SimGridEngine::events() const { return state_->events; }
std::uint64_t SimGridEngine::shared_flows() const { return state_->shared_flows; }

void SimGridEngine::after(double delay, std::function<void()> what) {
  const double at = now() + delay;
  state_->timers.add_entry(at, std::move(what));
  state_->stops.at(at);
}

estimates::Engine::Handle SimGridEngine::start_computation(std::uint32_t host, double work,
                                                           Done done) {
  State& state = *state_;
  ensure(state.hosts[host].busy == kNobody, "a host computes one thing at a time");
  const std::uint32_t place = state.place(std::move(done));
  State::Activity& activity = state.activities[place];
  activity.host = host;
  activity.left = std::max(work, 0.0) * kUnitsOfWork / state.hosts[host].speed;
  activity.rate = kUnitsOfWork;
  state.hosts[host].busy = place;
  state.schedule(place);
  return activity.number;
}

estimates::Engine::Handle SimGridEngine::flow(std::span<const std::uint32_t> links, double bytes,
                                              Done done) {
  State& state = *state_;
  const std::uint32_t place = state.place(std::move(done));
  State::Activity& activity = state.activities[place];
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
    activity.links.assign(links.begin(), links.end());
    activity.rate = state.rate_alone(activity.links);
    if (state.enter(place)) {
      state.schedule(place);
    } else {
      state.share(place);
    }
  }
  return number;
}

/// Units of work are those of the present speed: SimGrid's hosts had only one.
void SimGridEngine::set_speed(std::uint32_t host, double speed) {
  State& state = *state_;
  State::Host& at = state.hosts[host];
  const double before = std::exchange(at.speed, speed);
  if (before == speed || at.busy == kNobody) return;
  State::Activity& activity = state.activities[at.busy];
  const double left = activity.left - (now() - activity.since) * activity.rate;
  if (left <= kSameInstant * activity.rate) return;  // ends at this instant
  activity.left = left * before / speed;
  activity.since = now();
  state.schedule(at.busy);
}

void SimGridEngine::set_bandwidth(std::uint32_t link, double bandwidth) {
  State& state = *state_;
  State::Link& at = state.links[link];
  if (std::exchange(at.bandwidth, bandwidth * kUnitsOfByte) == at.bandwidth || at.flows == 0) {
    return;
  }
  if (at.alone == kNobody) {
    at.told = at.bandwidth;
    state.platform.link(link)->set_bandwidth(at.bandwidth);
    return;
  }
  State::Activity& activity = state.activities[at.alone];
  activity.left = std::max(0.0, activity.left - (now() - activity.since) * activity.rate);
  activity.since = now();
  activity.rate = state.rate_alone(activity.links);
  state.schedule(at.alone);
}

/// Stores the state of a link: SimGrid's own links are always up.
void SimGridEngine::set_link_up(std::uint32_t link, bool up) {
  State& state = *state_;
  state.links[link].up = up;
  if (up || state.links[link].flows == 0) return;
  for (const std::uint32_t place : state.flows_over(link)) state.fail(place);
}

void SimGridEngine::run() {
  state_->platform.engine().run();
  state_->given_up.clear();
}

void SimGridEngine::cancel_all() {
  State& state = *state_;
  state.stops.clear();
  state.timers.clear();
  state.ends.clear();
  state.ready.clear();
  state.free_places.clear();
  for (std::uint32_t place = 0; place < state.activities.size(); ++place) {
    State::Activity& activity = state.activities[place];
    state.give_up(activity);
    if (activity.host != kNobody) state.hosts[activity.host].busy = kNobody;
    state.forget(activity);
    state.free_places.push_back(place);
  }
  for (State::Link& link : state.links) {
    link.flows = 0;
    link.alone = kNobody;
  }
}

std::unique_ptr<estimates::Engine> simgrid_engine(std::uint32_t hosts, std::uint32_t links) {
  return std::make_unique<SimGridEngine>(hosts, links);
}

}  // namespace orrery::sim
