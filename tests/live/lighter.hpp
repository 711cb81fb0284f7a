// Less work for live runs under a sanitizer, which makes it several times as long: ranks would miss
// their pace. The paces that tests speak of stay as they are.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace orrery::live {

/// `overrides` of a scenario and, under a sanitizer, shorter sequences.
inline std::vector<std::string> lighter(std::vector<std::string> overrides) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  overrides.push_back("job.sequence_length=8");
#endif
  return overrides;
}

/// A pace that no test speaks of: short, but with room for a sanitizer.
inline std::string brisk_pace() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "job.pace.micro_batch=60 ms";
#else
  return "job.pace.micro_batch=20 ms";
#endif
}

}  // namespace orrery::live
