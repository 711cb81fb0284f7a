#include "live/training/token_gather.hpp"

#include <array>

namespace orrery::live {

TokenGather::TokenGather(std::span<const std::uint8_t> tokens) {
  std::array<bool, 256> occurs{};
  for (const std::uint8_t token : tokens) occurs[token] = true;
  std::array<std::uint8_t, 256> slot_of{};
  for (std::size_t token = 0; token < occurs.size(); ++token) {
    if (!occurs[token]) continue;
    slot_of[token] = static_cast<std::uint8_t>(rows_.size());
    rows_.push_back(static_cast<std::uint8_t>(token));
  }
  slots_.reserve(tokens.size());
  for (const std::uint8_t token : tokens) slots_.push_back(slot_of[token]);
}

}  // namespace orrery::live
