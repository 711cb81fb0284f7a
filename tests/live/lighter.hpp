// Less work for live runs of tests: their ranks keep their pace on a slow machine, and under a
// sanitizer, too.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace orrery::live {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true, kSanitized = true;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr bool kThreadSanitized = false, kSanitized = true;
#else
inline constexpr bool kThreadSanitized = false, kSanitized = false;
#endif

/// Default micro-batch time of tests: short, but with room for a sanitizer.
inline constexpr int kBriskPaceMs = kThreadSanitized ? 240 : kSanitized ? 60 : 20;
inline std::string brisk_pace() {
  return "job.pace.micro_batch=" + std::to_string(kBriskPaceMs) + " ms";
}

/// `overrides` of a scenario and short sequences; where those are not enough (the thread sanitizer
/// slows the update, too), also longer paces.
inline std::vector<std::string> lighter(std::vector<std::string> overrides) {
  if (kThreadSanitized) {
    overrides.insert(overrides.end(), {"job.sequence_length=2", brisk_pace()});
  } else {
    overrides.emplace_back("job.sequence_length=8");
  }
  return overrides;
}

}  // namespace orrery::live
