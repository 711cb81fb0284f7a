#include "sim/simgrid_engine.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <xbt/log.h>

#include "core/error.hpp"
#include "sim/simgrid_compat.hpp"

namespace orrery {
namespace {

namespace s4u = simgrid::s4u;
using simgrid::kernel::timer::Timer;

// SimGrid rounds small numbers away; nanoseconds of work and parts of a byte keep clear of that.
constexpr double kUnitsOfWork = 1e9;
constexpr double kUnitsOfByte = 256;
constexpr double kSameInstant = 1e-9;  // seconds: the precision given to SimGrid

/// A zone whose every route is the set of links laid out for the flow about to start.
class LaidOutZone : public simgrid::kernel::routing::NetZoneImpl {
 public:
  explicit LaidOutZone(const std::string& name) : NetZoneImpl(name) {}

  void get_local_route(const simgrid::kernel::routing::NetPoint*,
                       const simgrid::kernel::routing::NetPoint*,
                       simgrid::kernel::routing::Route* into, double*) override {
    for (const s4u::Link* link : next_) into->link_list_.push_back(link->get_impl());
  }
  std::vector<s4u::Link*> next_;
};

/// SimGrid takes over signals that belong to the program around it.
class SignalKeeper {
 public:
  SignalKeeper() {
    for (std::size_t i = 0; i < kKept.size(); ++i) sigaction(kKept[i], nullptr, &before_[i]);
  }
  ~SignalKeeper() {
    for (std::size_t i = 0; i < kKept.size(); ++i) sigaction(kKept[i], &before_[i], nullptr);
  }
  SignalKeeper(const SignalKeeper&) = delete;
  SignalKeeper& operator=(const SignalKeeper&) = delete;

 private:
  static constexpr std::array<int, 3> kKept{SIGINT, SIGSEGV, SIGBUS};
  std::array<struct sigaction, 3> before_{};
};

}  // namespace

struct SimGridEngine::State {
  struct Activity {
    s4u::ActivityPtr activity;
    Done done;
    std::int64_t host = -1;  ///< of a computation, which alone has the next two
    double units = 0;        ///< its amount ...
    double since = 0;        ///< ... and when it began
  };

  std::unique_ptr<s4u::Engine> simgrid;
  LaidOutZone* zone = nullptr;
  s4u::Host* source = nullptr;
  s4u::Host* sink = nullptr;
  std::vector<s4u::Host*> hosts;
  std::vector<double> speeds;
  std::vector<s4u::Link*> links;

  std::map<Handle, Activity> active;
  std::map<std::uint64_t, std::function<void()>> timers;
  std::vector<std::pair<Handle, bool>> ready;
  std::vector<s4u::ActivityPtr> given_up;  ///< SimGrid still looks at cancelled ones
  bool drain_due = false;
  Handle next_handle = 1;
  std::uint64_t next_timer = 1;
  std::uint64_t events = 0;

  void build(std::uint32_t host_count, std::uint32_t link_count);
  void ended(const s4u::Activity& activity);
  void mark_ready(Handle handle, bool ok);
  void drain();
  void give_up(const s4u::ActivityPtr& activity);
  Handle start_compute(Handle handle, std::uint32_t host, double units, Done done);
};

void SimGridEngine::State::build(std::uint32_t host_count, std::uint32_t link_count) {
  const SignalKeeper keeper;
  xbt_log_control_set("root.thresh:critical");
  simgrid = std::make_unique<s4u::Engine>("orrery-sim");
  simgrid_compat::configure();
  zone = new LaidOutZone("cluster");  // SimGrid's to delete
  simgrid_compat::attach(*simgrid, *zone);
  s4u::NetZone& face = *zone->get_iface();
  source = simgrid_compat::add_host(face, "source", 1);
  sink = simgrid_compat::add_host(face, "sink", 1);
  for (std::uint32_t i = 0; i < host_count; ++i) {
    hosts.push_back(simgrid_compat::add_host(face, fmt::format("h{}", i), kUnitsOfWork));
  }
  speeds.assign(host_count, 1.0);
  for (std::uint32_t i = 0; i < link_count; ++i) {
    links.push_back(simgrid_compat::add_link(face, fmt::format("l{}", i), kUnitsOfByte));
  }
  face.seal();
  simgrid_compat::on_completion([this](const s4u::Activity& activity) { ended(activity); });
}

void SimGridEngine::State::ended(const s4u::Activity& activity) {
  // The number travels as user data; zero: given up.
  const auto handle = reinterpret_cast<std::uintptr_t>(activity.get_data<void>());
  if (handle == 0 || active.find(handle) == active.end()) return;
  mark_ready(handle, activity.get_state() == s4u::Activity::State::FINISHED);
}

void SimGridEngine::State::mark_ready(Handle handle, bool ok) {
  ready.emplace_back(handle, ok);
  if (drain_due) return;
  drain_due = true;
  Timer::set(s4u::Engine::get_clock(), [this] { drain(); });
}

void SimGridEngine::State::drain() {
  drain_due = false;
  std::vector<std::pair<Handle, bool>> now = std::exchange(ready, {});
  std::sort(now.begin(), now.end());
  for (const auto& [handle, ok] : now) {
    const auto found = active.extract(handle);
    if (found.empty()) continue;
    ++events;
    if (found.mapped().done) found.mapped().done(ok);
  }
}

void SimGridEngine::State::give_up(const s4u::ActivityPtr& activity) {
  activity->set_data(nullptr);
  given_up.push_back(activity);
  activity->cancel();
}

Engine::Handle SimGridEngine::State::start_compute(Handle handle, std::uint32_t host,
                                                   double units, Done done) {
  s4u::ExecPtr exec = s4u::Exec::init();
  exec->set_flops_amount(units);
  exec->set_host(hosts[host]);
  exec->set_data(reinterpret_cast<void*>(handle));
  active[handle] = {exec, std::move(done), host, units, s4u::Engine::get_clock()};
  exec->start();
  return handle;
}

SimGridEngine::SimGridEngine(std::uint32_t hosts, std::uint32_t links)
    : state_(std::make_unique<State>()) {
  ensure(!s4u::Engine::is_initialized(), "one simulation engine per process");
  state_->build(hosts, links);
}

SimGridEngine::~SimGridEngine() = default;

double SimGridEngine::now() const { return s4u::Engine::get_clock(); }
std::uint32_t SimGridEngine::hosts() const {
  return static_cast<std::uint32_t>(state_->hosts.size());
}
std::uint32_t SimGridEngine::links() const {
  return static_cast<std::uint32_t>(state_->links.size());
}
std::uint64_t SimGridEngine::events() const { return state_->events; }

void SimGridEngine::after(double delay, std::function<void()> what) {
  const std::uint64_t number = state_->next_timer++;
  state_->timers[number] = std::move(what);
  Timer::set(now() + delay, [state = state_.get(), number] {
    const auto found = state->timers.extract(number);
    if (found.empty()) return;
    ++state->events;
    found.mapped()();
  });
}

Engine::Handle SimGridEngine::compute(std::uint32_t host, double work, Done done) {
  const Handle handle = state_->next_handle++;
  if (work > 0) {
    const double units = work * kUnitsOfWork / state_->speeds[host];
    return state_->start_compute(handle, host, units, std::move(done));
  }
  state_->active[handle] = {nullptr, std::move(done), host};
  state_->mark_ready(handle, true);
  return handle;
}

Engine::Handle SimGridEngine::flow(std::span<const std::uint32_t> links, double bytes,
                                   Done done) {
  State& state = *state_;
  const Handle handle = state.next_handle++;
  bool up = true;
  state.zone->next_.clear();
  for (const std::uint32_t link : links) {
    state.zone->next_.push_back(state.links[link]);
    up = up && state.links[link]->is_on();
  }
  const double units = bytes * kUnitsOfByte;
  if (!up || links.empty() || units < 1) {
    state.active[handle] = {nullptr, std::move(done)};
    state.mark_ready(handle, up);
    return handle;
  }
  s4u::CommPtr comm = s4u::Comm::sendto_init(state.source, state.sink);
  comm->set_payload_size(static_cast<std::uint64_t>(units + 0.5));
  comm->set_data(reinterpret_cast<void*>(handle));
  state.active[handle] = {comm, std::move(done)};
  comm->start();
  return handle;
}

void SimGridEngine::set_speed(std::uint32_t host, double speed) {
  State& state = *state_;
  const double before = std::exchange(state.speeds[host], speed);
  if (before == speed) return;
  std::vector<Handle> running;
  for (const auto& [handle, entry] : state.active) {
    if (entry.host == static_cast<std::int64_t>(host) && entry.activity != nullptr) {
      running.push_back(handle);
    }
  }
  for (const Handle handle : running) {
    // Reckoned here: SimGrid aborts when asked what is left of an activity that ends right now.
    const State::Activity& entry = state.active.at(handle);
    const double left = entry.units - (now() - entry.since) * kUnitsOfWork;
    if (left <= kSameInstant * kUnitsOfWork) continue;
    auto found = state.active.extract(handle);
    state.give_up(found.mapped().activity);
    state.start_compute(handle, host, left * before / speed, std::move(found.mapped().done));
  }
}

void SimGridEngine::set_bandwidth(std::uint32_t link, double bandwidth) {
  state_->links[link]->set_bandwidth(bandwidth * kUnitsOfByte);
}

void SimGridEngine::set_link_up(std::uint32_t link, bool up) {
  if (up) {
    state_->links[link]->turn_on();
  } else {
    state_->links[link]->turn_off();
  }
}

void SimGridEngine::run() {
  state_->simgrid->run();
  state_->given_up.clear();
}

void SimGridEngine::cancel_all() {
  state_->timers.clear();
  state_->ready.clear();
  const std::map<Handle, State::Activity> all = std::exchange(state_->active, {});
  for (const auto& [handle, entry] : all) {
    if (entry.activity != nullptr) state_->give_up(entry.activity);
  }
}

std::unique_ptr<Engine> simgrid_engine(std::uint32_t hosts, std::uint32_t links) {
  return std::make_unique<SimGridEngine>(hosts, links);
}

}  // namespace orrery
