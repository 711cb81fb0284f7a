#include "live/programs/calibration/link_fit.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::live {
namespace {

constexpr double kMostBandwidth = 1e12;
constexpr double kLeastBandwidth = 1e8;  // least rate of a NIC in a scenario

}  // namespace

std::optional<FittedLinks> fit_links(const std::vector<CollectiveTime>& times) {
  // Weighted normal equations of seconds = rounds x latency + bytes x slope, weights 1 / seconds^2.
  double rr = 0, rb = 0, bb = 0, r = 0, b = 0;
  std::size_t count = 0;
  for (const CollectiveTime& each : times) {
    if (each.seconds <= 0) continue;
    const double rounds = each.rounds / each.seconds, bytes = each.bytes / each.seconds;
    rr += rounds * rounds;
    rb += rounds * bytes;
    bb += bytes * bytes;
    r += rounds;
    b += bytes;
    ++count;
  }
  if (count == 0 || rr == 0) return std::nullopt;
  const double determinant = rr * bb - rb * rb;
  double slope = 0;
  if (determinant > 1e-9 * rr * bb) {
    slope = (b * rr - r * rb) / determinant;
    if (r * bb < b * rb) slope = b / bb;  // otherwise the latency would be negative
  }
  slope = std::clamp(slope, 1 / kMostBandwidth, 1 / kLeastBandwidth);
  const double latency = std::max(0.0, (r - rb * slope) / rr);
  FittedLinks links{latency, 1 / slope, 0};
  for (const CollectiveTime& each : times) {
    if (each.seconds <= 0) continue;
    const double fitted = each.rounds * latency + each.bytes * slope;
    links.error += std::abs(fitted / each.seconds - 1) / static_cast<double>(count);
  }
  return links;
}

}  // namespace orrery::live
