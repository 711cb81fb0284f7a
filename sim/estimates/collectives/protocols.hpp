// What NCCL's protocols make of a collective: LL and LL128 send flags beside the data and so spare
// waiting, Simple sends data alone and synchronises each round. Turns a schedule of
// sim/estimates/collectives/collectives into one as it runs, by coefficients fitted to measurements
// (python/calibration): a start, longer rounds, more bytes, and the filling of the pipeline. Called
// where collectives are priced or planned; needs no engine. Thread-safe: no state. Seconds and
// bytes.
#pragma once

#include <cstdint>

#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "topologies/cluster.hpp"

namespace orrery::estimates {

enum class Protocol : std::uint8_t { ll, ll128, simple };

struct PricedSchedule {
  Protocol protocol{};          ///< the one that is fastest alone
  CollectiveSchedule schedule;  ///< its shares and latencies contain what the protocol costs
  Seconds alone;                ///< its uncontended_time()
};

/// `schedule` of `kind` for `size` bytes. With a profile that says nothing of protocols, the
/// schedule itself.
PricedSchedule price_protocols(const Cluster& cluster, const CostProfile& profile,
                               CollectiveKind kind, CollectiveSchedule schedule, Bytes size);

}  // namespace orrery::estimates
