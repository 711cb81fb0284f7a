// Less work for live runs under a sanitizer, which makes it several times as long: ranks would miss
// their pace. Paces and with them all the times that tests speak of stay as they are.
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

}  // namespace orrery::live
