// Differences between SimGrid versions: 3.32 (Debian 12), 3.36 and 4.x differ in the construction
// of a platform, in the signal for the end of an activity, and in the names of the numerical
// options. Included by sim/engine/simgrid_shares and simgrid_platform only. One thread.
#pragma once

#include <functional>
#include <string>

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/version.h>

static_assert(SIMGRID_VERSION >= 33200, "SimGrid 3.32 or newer is needed");

namespace orrery::sim::simgrid_compat {

namespace s4u = simgrid::s4u;

/// Adds our zone to the platform: on 3.x the first zone is the root; from 4.0 on a root always
/// exists, and our zone is below it.
inline void attach([[maybe_unused]] s4u::Engine& engine,
                   [[maybe_unused]] simgrid::kernel::routing::NetZoneImpl& zone) {
#if SIMGRID_VERSION >= 40000
  zone.set_parent(engine.get_netzone_root()->get_impl());
#endif
}

/// Adds a host of `speed` to the zone and returns it, owned by SimGrid.
inline s4u::Host* add_host(s4u::NetZone& zone, const std::string& name, double speed) {
#if SIMGRID_VERSION >= 40000
  return zone.add_host(name, speed);
#else
  return zone.create_host(name, speed);
#endif
}

/// Adds a link of `bandwidth` in bytes per second to the zone and returns it, owned by SimGrid.
inline s4u::Link* add_link(s4u::NetZone& zone, const std::string& name, double bandwidth) {
#if SIMGRID_VERSION >= 40000
  return zone.add_link(name, bandwidth);
#else
  return zone.create_link(name, bandwidth);
#endif
}

/// Calls `ended` for every Comm and Exec that finishes, fails or is cancelled; on 3.32 twice for a
/// cancelled one. Registers `ended` for the rest of the process: call once.
inline void on_completion(const std::function<void(const s4u::Activity&)>& ended) {
#if SIMGRID_VERSION >= 33400
  s4u::Comm::on_completion_cb([ended](const s4u::Comm& comm) { ended(comm); });
  s4u::Exec::on_completion_cb([ended](const s4u::Exec& exec) { ended(exec); });
#else
  s4u::Activity::on_completion_cb(ended);
#endif
}

/// Configures a fluid network in which equal flows share equally: no cross traffic, no limit by
/// latency. Applies to the whole process; call before the platform is sealed.
inline void configure() {
  using s4u::Engine;
  Engine::set_config("network/model:CM02");
  Engine::set_config("network/crosstraffic:0");
  Engine::set_config("network/TCP-gamma:1e30");
#if SIMGRID_VERSION >= 33400
  Engine::set_config("precision/timing:1e-9");
#else
  Engine::set_config("surf/precision:1e-9");
#endif
}

}  // namespace orrery::sim::simgrid_compat
