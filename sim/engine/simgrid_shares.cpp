#include "sim/engine/simgrid_shares.hpp"

#include <utility>

#include "core/error.hpp"
#include "sim/estimates/engine/sharing_engine.hpp"

namespace orrery::sim {
namespace {

/// Returns the number of links of a new platform, the only one of the process.
std::uint32_t only_platform(std::uint32_t links) {
  ensure(!simgrid::s4u::Engine::is_initialized(), "one simulation engine per process");
  return links;
}

}  // namespace

SimGridShares::SimGridShares(std::uint32_t links)
    : LinkShares(0), platform_(only_platform(links), estimates::SharingEngine::kUnitsOfByte) {
  simgrid_compat::on_completion(
      [this](const simgrid::s4u::Activity& activity) { end_flow(activity); });
  simgrid::s4u::Engine::on_time_advance_cb([this](double) {
    now_ = SimGridStops::now();
    listener().on_time();
  });
}

void SimGridShares::start_flow(std::uint32_t place, std::span<const std::uint32_t> links,
                               double units) {
  if (place >= flows_.size()) flows_.resize(place + 1);
  simgrid::s4u::CommPtr& flow = flows_[place];
  flow = platform_.flow(links);
  flow->set_payload_size(static_cast<std::uint64_t>(units));
  flow->set_data(reinterpret_cast<void*>(std::uintptr_t{place} + 1));
  flow->start();
}

void SimGridShares::cancel_flow(std::uint32_t place) {
  cancelled_.push_back(std::exchange(flows_[place], nullptr));
  cancelled_.back()->set_data(nullptr);
  cancelled_.back()->cancel();
}

void SimGridShares::set_bandwidth(std::uint32_t link, double bandwidth) {
  platform_.link(link)->set_bandwidth(bandwidth);
}

void SimGridShares::end_flow(const simgrid::s4u::Activity& activity) {
  const auto number = reinterpret_cast<std::uintptr_t>(activity.get_data<void>());
  if (number == 0) return;
  const auto place = static_cast<std::uint32_t>(number - 1);
  if (flows_[place].get() == &activity) listener().on_flow_end(place);
}

void SimGridShares::run() {
  platform_.engine().run();
  cancelled_.clear();
}

}  // namespace orrery::sim
