#include "sim/estimates/engine/sharing_engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "sim/estimates/engine/calendar.hpp"

namespace orrery::estimates {
namespace {

constexpr double kUnitsOfWork = 1e9;   // nanoseconds
constexpr double kSameInstant = 1e-9;  // seconds: the precision of the models of sharing
constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

}  // namespace

struct SharingEngine::State : LinkShares::Listener {
  struct Activity {
    Done done;
    std::uint64_t number = 0;          ///< order of starting; 0: not active
    std::uint32_t turn = 0;            ///< tells its present end from those reckoned before
    std::uint32_t host = kNobody;      ///< host of a computation
    std::vector<std::uint32_t> links;  ///< links of a flow, each as often as it counts
    double left = 0, since = 0;        ///< units at the instant `since`
    double rate = 0;                   ///< bytes or work per second
    bool shared = false;               ///< flow that meets others: the model determines its end
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
    double told = 0;       ///< ... and as the model of sharing has it
    bool up = true;
    std::uint32_t flows = 0;
    std::uint32_t alone = kNobody;  ///< the place of its only flow, which meets nobody elsewhere
  };

  const std::unique_ptr<LinkShares> shares;
  std::vector<Host> hosts;
  std::vector<Link> links;

  std::vector<Activity> activities;
  std::vector<std::uint32_t> free_places;
  Calendar<std::function<void()>> timers;
  Calendar<End> ends;
  std::vector<End> ready;              ///< activities that ended at this instant
  std::vector<End> batch;              ///< being told
  std::uint64_t started = 0;
  std::uint64_t events = 0, shared_flows = 0;

  State(std::uint32_t host_count, std::uint32_t link_count, std::unique_ptr<LinkShares> model);

  std::uint32_t place(Done done);
  void schedule(std::uint32_t place);
  void fail(std::uint32_t place);
  bool enter(std::uint32_t place);
  void leave(const Activity& activity);
  double rate_alone(const std::vector<std::uint32_t>& over) const;
  void share(std::uint32_t place);
  std::vector<std::uint32_t> flows_over(std::uint32_t link) const;

  void on_time() override;
  void on_flow_end(std::uint32_t place) override;
  void on_wake() override;
  bool tell();
  bool under_way(const End& end) const;
  void give_up(std::uint32_t place);
  void forget(Activity& activity);
};

SharingEngine::State::State(std::uint32_t host_count, std::uint32_t link_count,
                            std::unique_ptr<LinkShares> model)
    : shares(std::move(model)), hosts(host_count), links(link_count) {
  shares->set_listener(*this);
}

// ---- activities in progress -------------------------------------------------------------------

std::uint32_t SharingEngine::State::place(Done done) {
  if (free_places.empty()) {
    free_places.push_back(static_cast<std::uint32_t>(activities.size()));
    activities.emplace_back();
  }
  const std::uint32_t place = free_places.back();
  free_places.pop_back();
  Activity& activity = activities[place];
  activity.done = std::move(done);
  activity.number = ++started;
  activity.since = shares->now();
  return place;
}

/// Its end at its present rate, if nothing comes in between.
void SharingEngine::State::schedule(std::uint32_t place) {
  Activity& activity = activities[place];
  double at = shares->now();
  if (activity.left > 0) at += activity.left / activity.rate;
  ends.add_entry(at, {activity.number, place, ++activity.turn, true});
  shares->stop_at(at);
}

void SharingEngine::State::fail(std::uint32_t place) {
  give_up(place);
  Activity& activity = activities[place];
  ends.add_entry(shares->now(), {activity.number, place, ++activity.turn, false});
  shares->wake_now();
}

bool SharingEngine::State::under_way(const End& end) const {
  const Activity& activity = activities[end.place];
  return activity.number == end.number && activity.turn == end.turn;
}

/// Takes a flow that has not ended back from the model of sharing.
void SharingEngine::State::give_up(std::uint32_t place) {
  if (std::exchange(activities[place].shared, false)) shares->cancel_flow(place);
}

/// Its place is free from now on.
void SharingEngine::State::forget(Activity& activity) {
  activity.done = nullptr;
  activity.number = 0;
  activity.host = kNobody;
  activity.links.clear();
  activity.shared = false;
}

// ---- flows ------------------------------------------------------------------------------------

/// Returns the rate of a flow that has its links to itself.
double SharingEngine::State::rate_alone(const std::vector<std::uint32_t>& over) const {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < over.size();) {
    std::size_t next = i + 1;  // the same link many times over comes in a row
    while (next < over.size() && over[next] == over[i]) ++next;
    least = std::min(least, links[over[i]].bandwidth / static_cast<double>(next - i));
    i = next;
  }
  return least;
}

/// Counts a flow on its links. Returns true if no other flow uses them; otherwise the flow that was
/// alone on one of them shares it from now on.
bool SharingEngine::State::enter(std::uint32_t place) {
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

void SharingEngine::State::leave(const Activity& activity) {
  for (std::size_t i = 0; i < activity.links.size(); ++i) {
    const std::uint32_t link = activity.links[i];
    if (i > 0 && activity.links[i - 1] == link) continue;
    --links[link].flows;
    links[link].alone = kNobody;
  }
}

/// Hands a flow to the model of sharing, which knows of those that meet others alone.
void SharingEngine::State::share(std::uint32_t place) {
  Activity& activity = activities[place];
  const double left = activity.left - (shares->now() - activity.since) * activity.rate;
  for (const std::uint32_t link : activity.links) links[link].alone = kNobody;
  if (left < 1) return;  // ends at this instant
  for (const std::uint32_t link : activity.links) {
    Link& at = links[link];
    if (std::exchange(at.told, at.bandwidth) != at.bandwidth) {
      shares->set_bandwidth(link, at.bandwidth);
    }
  }
  ++shared_flows;
  ++activity.turn;
  activity.shared = true;
  shares->start_flow(place, activity.links, std::floor(left + 0.5));
}

std::vector<std::uint32_t> SharingEngine::State::flows_over(std::uint32_t link) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t place = 0; place < activities.size(); ++place) {
    const std::vector<std::uint32_t>& over = activities[place].links;
    if (std::find(over.begin(), over.end(), link) != over.end()) found.push_back(place);
  }
  return found;
}

void SharingEngine::State::on_flow_end(std::uint32_t place) {
  const Activity& activity = activities[place];
  ready.push_back({activity.number, place, activity.turn, true});
  shares->wake_now();
}

// ---- time -------------------------------------------------------------------------------------

/// Ends the activities that are due within the precision, as the models of sharing do; activities
/// that start now belong to an instant of their own.
void SharingEngine::State::on_time() {
  while (ends.next() - shares->now() < kSameInstant) ready.push_back(ends.pop_entry());
  if (timers.next() <= shares->now() || !ready.empty()) shares->wake_now();
}

/// Processes an instant: first expired delays, then ended activities, both in the order of
/// starting, until no more follow.
void SharingEngine::State::on_wake() {
  shares->pass_stops(kSameInstant);
  do {
    while (timers.next() <= shares->now()) {
      ++events;
      timers.pop_entry()();
    }
  } while (tell());
  const double next = std::min(timers.next(), ends.next());
  if (std::isfinite(next)) shares->stop_at(next);
}

/// False if nothing has ended.
bool SharingEngine::State::tell() {
  batch.swap(ready);
  while (ends.next() <= shares->now()) batch.push_back(ends.pop_entry());
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

void SharingEngine::after(double delay, std::function<void()> what) {
  const double at = now() + delay;
  state_->timers.add_entry(at, std::move(what));
  state_->shares->stop_at(at);
}

Engine::Handle SharingEngine::start_computation(std::uint32_t host, double work, Done done) {
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

Engine::Handle SharingEngine::flow(std::span<const std::uint32_t> links, double bytes, Done done) {
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

/// Units of work are those of the present speed.
void SharingEngine::set_speed(std::uint32_t host, double speed) {
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

void SharingEngine::set_bandwidth(std::uint32_t link, double bandwidth) {
  State& state = *state_;
  State::Link& at = state.links[link];
  if (std::exchange(at.bandwidth, bandwidth * kUnitsOfByte) == at.bandwidth || at.flows == 0) {
    return;
  }
  if (at.alone == kNobody) {
    at.told = at.bandwidth;
    state.shares->set_bandwidth(link, at.bandwidth);
    return;
  }
  State::Activity& activity = state.activities[at.alone];
  activity.left = std::max(0.0, activity.left - (now() - activity.since) * activity.rate);
  activity.since = now();
  activity.rate = state.rate_alone(activity.links);
  state.schedule(at.alone);
}

/// Stores the state of a link: the links of the model of sharing are always up.
void SharingEngine::set_link_up(std::uint32_t link, bool up) {
  State& state = *state_;
  state.links[link].up = up;
  if (up || state.links[link].flows == 0) return;
  for (const std::uint32_t place : state.flows_over(link)) state.fail(place);
}

void SharingEngine::run() { state_->shares->run(); }

void SharingEngine::cancel_all() {
  State& state = *state_;
  state.shares->clear_stops();
  state.timers.clear();
  state.ends.clear();
  state.ready.clear();
  state.free_places.clear();
  for (std::uint32_t place = 0; place < state.activities.size(); ++place) {
    State::Activity& activity = state.activities[place];
    state.give_up(place);
    if (activity.host != kNobody) state.hosts[activity.host].busy = kNobody;
    state.forget(activity);
    state.free_places.push_back(place);
  }
  for (State::Link& link : state.links) {
    link.flows = 0;
    link.alone = kNobody;
  }
}

}  // namespace orrery::estimates
