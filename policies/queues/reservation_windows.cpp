#include "policies/queues/reservation_windows.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool overlap(const ReservationWindow& a, const ReservationWindow& b) {
  return a.begin < b.end && b.begin < a.end;
}

[[noreturn]] void refuse_window(const ReservationWindow& window, const std::string& message) {
  throw Error(ErrorKind::bad_input,
              fmt::format("multifactor.reservations: '{}': {}", window.name, message));
}

/// Throws bad_input for a reservation that is not valid by itself.
void check_window(const ReservationWindow& window, std::uint32_t nodes) {
  if (window.end <= window.begin) {
    refuse_window(window,
                  fmt::format("expected an end after the begin, found {:g} s after {:g} s",
                              to_seconds(window.end), to_seconds(window.begin)));
  }
  if (window.nodes.empty() == (window.gpus == 0)) {
    refuse_window(window, fmt::format("expected either nodes or gpus, found {}",
                                      window.nodes.empty() ? "neither" : "both"));
  }
  for (const std::uint32_t node : window.nodes) {
    if (node >= nodes) {
      refuse_window(window, fmt::format("expected nodes 0 to {} of the cluster, found {}",
                                        nodes - 1, node));
    }
  }
}

/// Gives a reservation of a number of GPUs its nodes, from the last node of the cluster on.
void choose_nodes(ReservationWindow& window, const std::vector<ReservationWindow>& all,
                  std::uint32_t nodes, std::uint32_t gpus_per_node) {
  std::set<std::uint32_t> taken;
  for (const ReservationWindow& other : all) {
    if (&other != &window && overlap(window, other)) {
      taken.insert(other.nodes.begin(), other.nodes.end());
    }
  }
  const std::uint64_t wanted = (window.gpus + gpus_per_node - 1) / gpus_per_node;
  for (std::uint32_t node = nodes; node > 0 && window.nodes.size() < wanted; --node) {
    if (!taken.contains(node - 1)) window.nodes.push_back(node - 1);
  }
  if (window.nodes.size() == wanted) return;
  refuse_window(window, fmt::format("expected {} nodes for its {} GPUs, found {} that no other "
                                    "reservation has at the same time",
                                    wanted, window.gpus, window.nodes.size()));
}

std::vector<std::uint32_t> ascending(std::vector<std::uint32_t> nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

}  // namespace

bool ReservationWindow::admits(const JobSpec& job) const {
  return has(users, job.user) || has(vcs, job.pool);
}

ReservationWindows::ReservationWindows(std::vector<ReservationWindow> given, std::uint32_t nodes,
                                       std::uint32_t gpus_per_node)
    : windows_(std::move(given)) {
  for (const ReservationWindow& window : windows_) check_window(window, nodes);
  for (ReservationWindow& window : windows_) {
    if (window.gpus > 0) choose_nodes(window, windows_, nodes, gpus_per_node);
    window.nodes = ascending(std::move(window.nodes));
  }
  std::stable_sort(windows_.begin(), windows_.end(),
                   [](const auto& a, const auto& b) { return a.begin < b.begin; });
}

std::vector<std::uint32_t> ReservationWindows::closed_nodes(const JobSpec& job, Nanos at) const {
  const Nanos end = at + std::max(job.estimate, kNanosPerSecond);
  std::vector<std::uint32_t> nodes;
  for (const ReservationWindow& window : windows_) {
    if (window.begin >= end) break;
    if (window.end <= at || window.admits(job)) continue;
    nodes.insert(nodes.end(), window.nodes.begin(), window.nodes.end());
  }
  return ascending(std::move(nodes));
}

std::vector<std::uint32_t> ReservationWindows::own_nodes(const JobSpec& job, Nanos at) const {
  std::vector<std::uint32_t> nodes;
  for (const ReservationWindow& window : windows_) {
    if (window.begin > at) break;
    if (window.end <= at || !window.admits(job)) continue;
    nodes.insert(nodes.end(), window.nodes.begin(), window.nodes.end());
  }
  return ascending(std::move(nodes));
}

Nanos ReservationWindows::next_edge(Nanos now) const {
  Nanos next = kNever;
  for (const ReservationWindow& window : windows_) {
    if (window.begin > now) return std::min(next, window.begin);
    if (window.end > now) next = std::min(next, window.end);
  }
  return next;
}

std::vector<Nanos> ReservationWindows::ends_after(Nanos now) const {
  std::vector<Nanos> ends;
  for (const ReservationWindow& window : windows_) {
    if (window.end > now) ends.push_back(window.end);
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

}  // namespace orrery
