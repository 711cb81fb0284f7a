// Bits that flip in the memory of a test.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::live {

/// Flips one bit of a value.
inline void flip_bit(float& value, std::uint32_t bit = 23) {
  std::uint32_t word = 0;
  std::memcpy(&word, &value, sizeof word);
  word ^= 1u << bit;
  std::memcpy(&value, &word, sizeof word);
}

/// Returns the places in this process's memory, other than `values` itself, that contain the same
/// bytes.
inline std::vector<float*> copies_in_memory(std::span<const float> values) {
  std::vector<float*> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char rights[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, rights) != 3) continue;
    if (std::string_view(rights, 2) != "rw") continue;
    auto* at = reinterpret_cast<char*>(begin);
    auto* const last = reinterpret_cast<char*>(end);
    while (at < last) {
      at = static_cast<char*>(
          memmem(at, static_cast<std::size_t>(last - at), values.data(), values.size_bytes()));
      if (at == nullptr) break;
      auto* const place = reinterpret_cast<float*>(at);
      if (place != values.data()) found.push_back(place);
      at += sizeof(float);
    }
  }
  return found;
}

}  // namespace orrery::live
