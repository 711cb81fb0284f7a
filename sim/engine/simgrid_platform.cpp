#include "sim/engine/simgrid_platform.hpp"

#include <array>
#include <csignal>
#include <string>

#include <fmt/format.h>
#include <xbt/log.h>

namespace orrery::sim {
namespace {

namespace s4u = simgrid::s4u;

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

/// A zone whose every route is the set of links laid out for the flow about to start.
class SimGridPlatform::LaidOutZone : public simgrid::kernel::routing::NetZoneImpl {
 public:
  explicit LaidOutZone(const std::string& name) : NetZoneImpl(name) {}

  void get_local_route(const simgrid::kernel::routing::NetPoint*,
                       const simgrid::kernel::routing::NetPoint*,
                       simgrid::kernel::routing::Route* into, double*) override {
    for (const Link* link : next_) into->link_list_.push_back(link->get_impl());
  }
  std::vector<Link*> next_;
};

SimGridPlatform::SimGridPlatform(std::uint32_t links, double bandwidth) {
  const SignalKeeper keeper;
  xbt_log_control_set("root.thresh:critical");
  engine_ = std::make_unique<s4u::Engine>("orrery-sim");
  simgrid_compat::configure();
  zone_ = new LaidOutZone("cluster");
  simgrid_compat::attach(*engine_, *zone_);
  s4u::NetZone& face = *zone_->get_iface();
  source_ = simgrid_compat::add_host(face, "source", 1);
  sink_ = simgrid_compat::add_host(face, "sink", 1);
  for (std::uint32_t i = 0; i < links; ++i) {
    links_.push_back(simgrid_compat::add_link(face, fmt::format("l{}", i), bandwidth));
  }
  face.seal();
}

s4u::CommPtr SimGridPlatform::flow(std::span<const std::uint32_t> over) {
  zone_->next_.clear();
  for (const std::uint32_t link : over) zone_->next_.push_back(links_[link]);
  return s4u::Comm::sendto_init(source_, sink_);
}

}  // namespace orrery::sim
