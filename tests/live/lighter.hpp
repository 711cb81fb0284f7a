// Less work for live runs under a sanitizer, which makes it several times as long: ranks would miss
// their pace. The paces that tests speak of stay as they are.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace orrery::live {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// `overrides` of a scenario and, under a sanitizer, shorter sequences.
inline std::vector<std::string> lighter(std::vector<std::string> overrides) {
  if (kSanitized) overrides.push_back("job.sequence_length=8");
  return overrides;
}

/// Of a micro-batch, where no test speaks of it: short, but with room for a sanitizer.
inline constexpr int kBriskPaceMs = kSanitized ? 60 : 20;
inline std::string brisk_pace() {
  return "job.pace.micro_batch=" + std::to_string(kBriskPaceMs) + " ms";
}

}  // namespace orrery::live
