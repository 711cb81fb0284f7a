// Transport of the gradients of a live run, as live.fabric and RunRequest.fabric name it. Pure
// functions; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/schema/names.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// grpc: streams between CPUs. nccl: NCCL between GPUs.
enum class LiveFabric : std::uint8_t { grpc, nccl };
constexpr std::array<std::string_view, 2> names_of(LiveFabric) { return {"grpc", "nccl"}; }

/// Returns the fabric that a message (Live, RunRequest) names; grpc if the message names none.
/// Throws as named().
template <class Message>
LiveFabric live_fabric(const Message& from) {
  return named(from.fabric(), std::optional(LiveFabric::grpc));
}

}  // namespace orrery
