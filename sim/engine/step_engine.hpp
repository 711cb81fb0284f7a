// Engine of simulated steps: SimGrid, or for large steps a solver that rounds as SimGrid does.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/estimates/engine/engine.hpp"

namespace orrery::sim {

/// Most simulated workers of a step that SimGrid executes. Rings in which no two ranks are equally
/// fast cost it the square of their length: a flow over many links that starts or ends goes over
/// all of its links once more for each of them (`update_modified_cnst_set_rec` of SimGrid 3.32).
inline constexpr std::uint32_t kMostSimGridWorkers = 4096;

/// Returns an engine for `hosts` workers: SimGrid's, of which a process has only one, or with more
/// than kMostSimGridWorkers that of MaxMinShares, in which flows end at the same bits and which can
/// run parts of a step one after the other. An EngineFactory. Throws as SimGridEngine's
/// constructor.
std::unique_ptr<estimates::Engine> step_engine(std::uint32_t hosts, std::uint32_t links);

}  // namespace orrery::sim
