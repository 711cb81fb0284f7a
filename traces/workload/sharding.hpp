// State that the data-parallel ranks of a job hold in shares instead of copies (ZeRO,
// arXiv:1910.02054), as Layout.shard names it. Used by the step graph, the layouts of a job and
// both worlds. Pure functions; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/schema/names.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Sharded state, each with that of the values before it: optimizer is ZeRO-1, gradients is ZeRO-2,
/// parameters is ZeRO-3 or FSDP.
enum class Sharding : std::uint8_t { nothing, optimizer, gradients, parameters };
constexpr std::array<std::string_view, 4> names_of(Sharding) {
  return {"nothing", "optimizer", "gradients", "parameters"};
}

/// Returns the sharded state of a layout; nothing if the layout names none. Throws as named().
inline Sharding sharding_of(const Layout& layout) {
  return named(layout.shard(), std::optional(Sharding::nothing));
}
/// Writes the sharded state into a layout.
inline void set_sharding(Layout& layout, Sharding sharding) {
  layout.set_shard(std::string(name_of(sharding)));
}

}  // namespace orrery
