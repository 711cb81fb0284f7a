// Bits that flip in the state that a device holds, between the steps of its training.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "core/random.hpp"
#include "live/cuda/orrery_cuda.h"
#include "live/training/device.hpp"
#include "tests/live/flip.hpp"

namespace orrery::live {

/// Functions of a module whose newest transformer is known, so that its memory can be reached
/// behind the device's back. One at a time.
class WatchedModule {
 public:
  explicit WatchedModule(const OrreryCudaTable& module) : table(module) {
    open_ = module.transformer_open;
    table.transformer_open = [](const OrreryShape* shape, int device, OrreryTransformer** out) {
      const int status = open_(shape, device, out);
      newest_ = *out;
      return status;
    };
  }
  /// Flips a bit of one value; returns false if the module fails.
  bool flip_value(OrreryPart part, std::size_t index, std::uint32_t bit) const {
    std::vector<float> values(table.transformer_size(newest_));
    if (table.transformer_read(newest_, part, values.data()) != 0) return false;
    flip_bit(values[index], bit);
    return table.transformer_write(newest_, part, values.data()) == 0;
  }
  std::uint64_t size() const { return table.transformer_size(newest_); }

  OrreryCudaTable table;

 private:
  static inline decltype(OrreryCudaTable::transformer_open) open_ = nullptr;
  static inline OrreryTransformer* newest_ = nullptr;
};

/// Trains `flips` steps on a device of `module`, in each of which a bit of the state flips once
/// before the update and is repaired after it has been looked for. Returns how many were found;
/// 0 if damage was ever seen where there was none.
inline int count_found_flips(const WatchedModule& module, Device& device, int flips) {
  constexpr OrreryPart kParts[] = {ORRERY_PARAMETERS, ORRERY_MEAN, ORRERY_SQUARE};
  Rng rng(5);
  std::vector<std::uint8_t> bytes(20);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(rng.below(256));
  int found = 0;
  for (int i = 0; i < flips; ++i) {
    device.zero_gradient();
    device.accumulate_gradient({.bytes = bytes});
    device.update(1.0F / 19, 1);
    if (!device.is_state_intact()) return 0;
    const OrreryPart part = kParts[i % 3];
    const std::size_t index = rng.below(module.size());
    const auto bit = static_cast<std::uint32_t>(rng.below(32));
    if (!module.flip_value(part, index, bit)) return 0;
    found += device.is_state_intact() ? 0 : 1;
    if (!module.flip_value(part, index, bit)) return 0;
  }
  return found;
}

}  // namespace orrery::live
